"""GeoAlign, or any other curator, inside ms-swift's GRPO. ms-swift is imported when a part of it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geoalign.adapters.exports import lazy_exports

if TYPE_CHECKING:
    from geoalign.adapters.swift.mixin import CuratedGRPO, GeoAlignSwiftTrainer
    from geoalign.adapters.swift.plug_in import install

__all__ = ["CuratedGRPO", "GeoAlignSwiftTrainer", "install"]

_HOMES = {**dict.fromkeys(__all__, "geoalign.adapters.swift.mixin"), "install": "geoalign.adapters.swift.plug_in"}

if not TYPE_CHECKING:  # for type checkers any name would exist otherwise
    __getattr__ = lazy_exports(__name__, _HOMES, "pip install 'geoalign[swift]', in an environment of its own")
