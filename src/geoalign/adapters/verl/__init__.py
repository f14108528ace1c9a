"""GeoAlign, or any other curator, inside verl's PPO trainers. verl is imported when a part of it is needed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from geoalign.errors import MissingExtraError

_HOMES = {
    "CuratedSteps": "geoalign.adapters.verl.mixin",
    "VerlSettings": "geoalign.adapters.verl.settings",
    "curate_dataproto": "geoalign.adapters.verl.v0",
}

__all__ = ["CuratedSteps", "VerlSettings", "curate_dataproto"]

if TYPE_CHECKING:
    from geoalign.adapters.verl.mixin import CuratedSteps
    from geoalign.adapters.verl.settings import VerlSettings
    from geoalign.adapters.verl.v0 import curate_dataproto


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'geoalign.adapters.verl' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "geoalign":
            raise
        raise MissingExtraError(
            f"geoalign.adapters.verl.{name} needs the package {error.name!r}, which is not installed: "
            "pip install 'geoalign[verl]', in an environment of its own"
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)
