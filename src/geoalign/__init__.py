"""GeoAlign: geometric rollout curation for reinforcement learning of language models.

Every curator can be imported from here, as can what one needs around them. A name is imported when it is first used, so
that settings and reports never load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from geoalign.curators.appeals import Appeals as Appeals
    from geoalign.curators.base import Curator as Curator
    from geoalign.curators.baselines.advantages import GRPO as GRPO
    from geoalign.curators.baselines.advantages import MCGRPO as MCGRPO
    from geoalign.curators.baselines.advantages import SGRPO as SGRPO
    from geoalign.curators.baselines.advantages import QuantileBaseline as QuantileBaseline
    from geoalign.curators.baselines.labelled import ConceptScore as ConceptScore
    from geoalign.curators.baselines.labelled import LabelledProbe as LabelledProbe
    from geoalign.curators.baselines.pf_ppo import PFPPOBestRandom as PFPPOBestRandom
    from geoalign.curators.baselines.pf_ppo import PFPPOBestWorst as PFPPOBestWorst
    from geoalign.curators.baselines.probes import ConfidentLearning as ConfidentLearning
    from geoalign.curators.baselines.probes import NearestCentroid as NearestCentroid
    from geoalign.curators.baselines.probes import ScoreAgreement as ScoreAgreement
    from geoalign.curators.baselines.rewards import PAR as PAR
    from geoalign.curators.baselines.rewards import AnswerMean as AnswerMean
    from geoalign.curators.baselines.rewards import LabelRefinement as LabelRefinement
    from geoalign.curators.baselines.rewards import MajorityVote as MajorityVote
    from geoalign.curators.baselines.seed_grpo import SeedGRPO as SeedGRPO
    from geoalign.curators.baselines.subsets import CPPO as CPPO
    from geoalign.curators.baselines.subsets import GFPO as GFPO
    from geoalign.curators.baselines.subsets import PODS as PODS
    from geoalign.curators.baselines.subsets import DAPOFilterOnly as DAPOFilterOnly
    from geoalign.curators.chain import Chain as Chain
    from geoalign.curators.controls import Oracle as Oracle
    from geoalign.curators.controls import PairCount as PairCount
    from geoalign.curators.controls import Random as Random
    from geoalign.curators.controls import RankTrim as RankTrim
    from geoalign.curators.controls import RewardDistance as RewardDistance
    from geoalign.curators.controls import TieDetector as TieDetector
    from geoalign.curators.denoise import Denoise as Denoise
    from geoalign.curators.denoise import DenoiseConfig as DenoiseConfig
    from geoalign.curators.geoalign import GeoAlign as GeoAlign
    from geoalign.curators.geoalign import GeoAlignConfig as GeoAlignConfig
    from geoalign.curators.geoalign.released import GeoAlignReleased as GeoAlignReleased
    from geoalign.curators.noise_corrected import NoiseCorrected as NoiseCorrected
    from geoalign.curators.registry import CURATORS as CURATORS
    from geoalign.method.advantages import group_advantages as group_advantages
    from geoalign.method.projector import ProjectorConfig as ProjectorConfig
    from geoalign.types import Curation as Curation
    from geoalign.types import Rollouts as Rollouts

# Beside the curators, which stand in the registry.
_HOMES = {
    "CURATORS": "geoalign.curators.registry",
    "Curation": "geoalign.types",
    "Curator": "geoalign.curators.base",
    "DenoiseConfig": "geoalign.curators.denoise",
    "GeoAlignConfig": "geoalign.curators.geoalign",
    "ProjectorConfig": "geoalign.method.projector",
    "Rollouts": "geoalign.types",
    "group_advantages": "geoalign.method.advantages",
}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    home = _homes().get(name, "") if name[:1].isalpha() else ""
    if not home:
        raise AttributeError(f"module 'geoalign' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*_homes(), "__version__"])


def _homes() -> dict[str, str]:
    from geoalign.curators.registry import BUILT_IN

    curators = (location.partition(":") for location in BUILT_IN.values())
    return {**{name: module for module, _, name in curators}, **_HOMES}
