"""Every curator behind one verb. `CURATORS` lists them by name."""

from geoalign.curators.base import Curator
from geoalign.curators.chain import Chain
from geoalign.curators.controls import Oracle, PairCount, Random, RewardDistance
from geoalign.curators.cppo import CPPO
from geoalign.curators.dapo_filter import DAPOFilterOnly
from geoalign.curators.geoalign import GeoAlign
from geoalign.curators.geoalign_released import GeoAlignReleased
from geoalign.curators.gfpo import GFPO
from geoalign.curators.grpo import GRPO
from geoalign.curators.mc_grpo import MCGRPO
from geoalign.curators.par import PAR
from geoalign.curators.pf_ppo import PFPPO
from geoalign.curators.pods import PODS
from geoalign.curators.quantile import QuantileBaseline
from geoalign.curators.registry import CURATORS, make_curator
from geoalign.curators.s_grpo import SGRPO
from geoalign.curators.seed_grpo import SeedGRPO

__all__ = [
    "CPPO",
    "CURATORS",
    "GFPO",
    "GRPO",
    "MCGRPO",
    "PAR",
    "PFPPO",
    "PODS",
    "SGRPO",
    "Chain",
    "Curator",
    "DAPOFilterOnly",
    "GeoAlign",
    "GeoAlignReleased",
    "Oracle",
    "PairCount",
    "QuantileBaseline",
    "Random",
    "RewardDistance",
    "SeedGRPO",
    "make_curator",
]
