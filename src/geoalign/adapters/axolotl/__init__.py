"""GeoAlign, or any other curator, inside Axolotl's GRPO. Axolotl is imported when a part of it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geoalign.adapters.exports import lazy_exports

if TYPE_CHECKING:
    from geoalign.adapters.axolotl.plugin import GeoAlignPlugin
    from geoalign.adapters.axolotl.trainer import CuratedAxolotlTrainer

__all__ = ["CuratedAxolotlTrainer", "GeoAlignPlugin"]

_HOMES = {
    "CuratedAxolotlTrainer": "geoalign.adapters.axolotl.trainer",
    "GeoAlignPlugin": "geoalign.adapters.axolotl.plugin",
}

if not TYPE_CHECKING:  # for type checkers any name would exist otherwise
    __getattr__ = lazy_exports(__name__, _HOMES, "pip install 'geoalign[axolotl]', in an environment of its own")
