"""Every curator behind one verb. `CURATORS` lists them by name."""

from geoalign.curators.base import Curator
from geoalign.curators.grpo import GRPO
from geoalign.curators.registry import CURATORS, make_curator

__all__ = ["CURATORS", "GRPO", "Curator", "make_curator"]
