"""GeoAlign, or any other curator, inside ms-swift's GRPO. ms-swift is imported when a part of it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geoalign.adapters.exports import lazy_exports

_HOMES = {
    "CuratedGRPO": "geoalign.adapters.swift.mixin",
    "GeoAlignGRPOTrainer": "geoalign.adapters.swift.mixin",
    "SwiftSettings": "geoalign.adapters.swift.settings",
    "install": "geoalign.adapters.swift.choice",
}

__all__ = ["CuratedGRPO", "GeoAlignGRPOTrainer", "SwiftSettings", "install"]

if TYPE_CHECKING:
    from geoalign.adapters.swift.choice import install
    from geoalign.adapters.swift.mixin import CuratedGRPO, GeoAlignGRPOTrainer
    from geoalign.adapters.swift.settings import SwiftSettings

__getattr__ = lazy_exports(__name__, _HOMES, "pip install 'geoalign[swift]', in an environment of its own")


def __dir__() -> list[str]:
    return sorted(__all__)
