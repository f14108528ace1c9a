"""The public names of an engine's adapter, imported when they are first asked for, and the engine's version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from packaging.specifiers import SpecifierSet

from geoalign.errors import MissingExtraError, UnsupportedError


def lazy_exports(package: str, homes: Mapping[str, str], install: str) -> Callable[[str], Any]:
    """A module's `__getattr__` that imports a name from its home, so that importing the package imports no engine.

    Args:
        package: the package whose names these are.
        homes: the module that defines each name.
        install: what to do where the engine is missing, for the error.

    Raises:
        MissingExtraError: from the returned function, where a package other than this one is not installed.
    """

    def export(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(import_module(homes[name]), name)
        except ModuleNotFoundError as error:
            if error.name is None or error.name.split(".")[0] == "geoalign":
                raise
            raise MissingExtraError(
                f"{package}.{name} needs the package {error.name!r}, which is not installed: {install}"
            ) from error

    return export


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
