"""The public names of an engine's adapter, imported when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from geoalign.errors import MissingExtraError


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
