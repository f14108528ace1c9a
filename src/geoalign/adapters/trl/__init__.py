"""GeoAlign, or any other curator, inside TRL's GRPO. TRL is imported when a trainer is first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from geoalign.errors import MissingExtraError

_HOMES = {
    "CuratedStep": "geoalign.adapters.trl.step",
    "GeoAlignGRPOTrainer": "geoalign.adapters.trl.trainer",
    "GeoAlignMixin": "geoalign.adapters.trl.mixin",
}

__all__ = ["CuratedStep", "GeoAlignGRPOTrainer", "GeoAlignMixin"]

if TYPE_CHECKING:
    from geoalign.adapters.trl.mixin import GeoAlignMixin
    from geoalign.adapters.trl.step import CuratedStep
    from geoalign.adapters.trl.trainer import GeoAlignGRPOTrainer


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'geoalign.adapters.trl' has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "geoalign":
            raise
        raise MissingExtraError(
            f"geoalign.adapters.trl.{name} needs the package {error.name!r}, which is not installed: "
            "pip install 'geoalign[trl]'"
        ) from error


def __dir__() -> list[str]:
    return sorted(__all__)
