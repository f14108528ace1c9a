"""Whether the installed engine is one that its adapter was written for. Imports no torch."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from packaging.specifiers import SpecifierSet

from geoalign.errors import MissingExtraError, UnsupportedError


def check_engine(package: str, *, extra: str, versions: str, installed: str | None = None) -> None:
    """Checks the version of a package; `installed`: this one in place of the installed one's.

    Args:
        versions: as in pyproject.toml, such as ">=0.9.1,<0.10". A development version of 0.10 is none of these.

    Raises:
        MissingExtraError: it is not installed.
        UnsupportedError: it is of another version.
    """
    if installed is None:
        try:
            installed = version(package)
        except PackageNotFoundError as error:
            raise MissingExtraError(
                f"{package} is not installed: pip install 'geoalign[{extra}]', in an environment of its own"
            ) from error
    if not SpecifierSet(versions).contains(installed, prereleases=True):
        raise UnsupportedError(f"{package} {installed}: expected {versions}; pip install 'geoalign[{extra}]'")
