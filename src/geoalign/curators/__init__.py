"""Every curator behind one verb. `CURATORS` lists them by name."""

from geoalign.curators.base import Curator
from geoalign.curators.geoalign import GeoAlign
from geoalign.curators.geoalign_released import GeoAlignReleased
from geoalign.curators.grpo import GRPO
from geoalign.curators.registry import CURATORS, make_curator

__all__ = ["CURATORS", "GRPO", "Curator", "GeoAlign", "GeoAlignReleased", "make_curator"]
