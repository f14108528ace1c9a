"""GeoAlign, or any other curator, inside SkyRL's trainers: `trainer.override_entrypoint=geoalign.adapters.skyrl` on
SkyRL's own command line, or `CuratedRayPPO` before a trainer of yours. SkyRL is imported when one of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geoalign.adapters.exports import lazy_exports

if TYPE_CHECKING:
    from geoalign.adapters.skyrl.trainers import CuratedConfig, CuratedExp, CuratedRayPPO, main

__all__ = ["CuratedConfig", "CuratedExp", "CuratedRayPPO", "main"]

_HOMES = dict.fromkeys(__all__, "geoalign.adapters.skyrl.trainers")

if not TYPE_CHECKING:  # for type checkers any name would exist otherwise
    __getattr__ = lazy_exports(__name__, _HOMES, "pip install 'geoalign[skyrl]', in an environment of its own")
