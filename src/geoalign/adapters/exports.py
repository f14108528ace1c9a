"""The public names of an engine's adapter, imported when they are first asked for, and the engine's version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from packaging.specifiers import SpecifierSet

from geoalign.errors import MissingExtraError, UnsupportedError

# An engine's package, the extra that installs it, and the versions that its adapter is written for, as in
# pyproject.toml. A development version of 0.10 is none below 0.10; TRL 1.15.0's own GRPO fails without a GPU driver.
ENGINES = {
    "trl": ("trl", ">=1.8,!=1.15.0,<1.17"),
    "verl": ("verl", ">=0.9.1,<0.10"),
    "ms-swift": ("swift", ">=4.6,<4.7"),
    "trinity-rft": ("trinity", ">=0.6,<0.7"),
    "skyrl": ("skyrl", ">=0.3,<0.4"),
    "axolotl": ("axolotl", ">=0.21,<0.22"),
}


def lazy_exports(package: str, homes: Mapping[str, str], install: str) -> Callable[[str], Any]:
    """A module's `__getattr__` that imports a name from its home: importing the package imports no engine.

    Where a package other than this one is missing it raises MissingExtraError, which says what to `install`.
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


def check_engine(package: str, installed: str | None = None) -> None:
    """Raises MissingExtraError where an engine is not installed, UnsupportedError where it is of another version."""
    extra, versions = ENGINES[package]
    if installed is None:
        try:
            installed = version(package)
        except PackageNotFoundError as error:
            raise MissingExtraError(
                f"{package} is not installed: pip install 'geoalign[{extra}]', in an environment of its own"
            ) from error
    if not SpecifierSet(versions).contains(installed, prereleases=True):
        raise UnsupportedError(f"{package} {installed}: expected {versions}; pip install 'geoalign[{extra}]'")
