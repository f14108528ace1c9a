"""Whether the installed engine is one that its adapter was written for. Imports no torch."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from packaging.version import Version

from geoalign.errors import MissingExtraError, UnsupportedError


def check_engine(package: str, *, extra: str, oldest: str, before: str, installed: str | None = None) -> None:
    """Checks that `oldest` <= version of the package < `before`; `installed`: this version in place of it.

    Raises:
        MissingExtraError: it is not installed.
        UnsupportedError: it is older or newer.
    """
    if installed is None:
        try:
            installed = version(package)
        except PackageNotFoundError as error:
            raise MissingExtraError(
                f"{package} is not installed: pip install 'geoalign[{extra}]', in an environment of its own"
            ) from error
    if not Version(oldest) <= Version(installed) < Version(before):
        raise UnsupportedError(
            f"{package} {installed}: expected at least {oldest} and less than {before}; pip install 'geoalign[{extra}]'"
        )
