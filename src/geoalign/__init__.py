"""GeoAlign: geometric rollout curation for reinforcement learning of language models.

Every curator can be imported from here, as can what one needs around them and to write another. A name is imported when
it is first used, so that settings and reports never load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    # What a type checker sees of the names that are imported when they are first used.
    from geoalign.answers import boxed_answers as boxed_answers
    from geoalign.audit import AuditPackage
    from geoalign.curators.appeals import Appeals as Appeals
    from geoalign.curators.baselines.baseline import Baseline as Baseline
    from geoalign.curators.baselines.baseline import groups_of as groups_of
    from geoalign.curators.baselines.baseline import reweighted as reweighted
    from geoalign.curators.baselines.baseline import subset as subset
    from geoalign.curators.baselines.controls import Oracle as Oracle
    from geoalign.curators.baselines.controls import PairCount as PairCount
    from geoalign.curators.baselines.controls import Random as Random
    from geoalign.curators.baselines.controls import RankTrim as RankTrim
    from geoalign.curators.baselines.controls import RewardDistance as RewardDistance
    from geoalign.curators.baselines.controls import TieDetector as TieDetector
    from geoalign.curators.baselines.label_refinement import OLR as OLR
    from geoalign.curators.baselines.labelled import LabelledProbe as LabelledProbe
    from geoalign.curators.baselines.probes import ConfidentLearning as ConfidentLearning
    from geoalign.curators.baselines.probes import NearestCentroid as NearestCentroid
    from geoalign.curators.baselines.probes import ScoreAgreement as ScoreAgreement
    from geoalign.curators.baselines.released import GeoAlignReleased as GeoAlignReleased
    from geoalign.curators.baselines.reshaped_advantages import GRPO as GRPO
    from geoalign.curators.baselines.reshaped_advantages import MCGRPO as MCGRPO
    from geoalign.curators.baselines.reshaped_advantages import SGRPO as SGRPO
    from geoalign.curators.baselines.reshaped_advantages import NoiseCorrected as NoiseCorrected
    from geoalign.curators.baselines.reshaped_advantages import QuantileBaseline as QuantileBaseline
    from geoalign.curators.baselines.reshaped_rewards import PAR as PAR
    from geoalign.curators.baselines.reshaped_rewards import AnswerMean as AnswerMean
    from geoalign.curators.baselines.reshaped_rewards import MajorityVote as MajorityVote
    from geoalign.curators.baselines.seed_grpo import SeedGRPO as SeedGRPO
    from geoalign.curators.baselines.subsets import CPPO as CPPO
    from geoalign.curators.baselines.subsets import PODS as PODS
    from geoalign.curators.baselines.subsets import PFPPOBestRandom as PFPPOBestRandom
    from geoalign.curators.baselines.subsets import PFPPOBestWorst as PFPPOBestWorst
    from geoalign.curators.baselines.subsets import VarianceFilter as VarianceFilter
    from geoalign.curators.chain import Chain as Chain
    from geoalign.curators.curator import Curator as Curator
    from geoalign.curators.curator import identity as identity
    from geoalign.curators.denoise import Denoise as Denoise
    from geoalign.curators.denoise import DenoiseConfig as DenoiseConfig
    from geoalign.curators.geoalign import GeoAlign as GeoAlign
    from geoalign.curators.geoalign import GeoAlignConfig as GeoAlignConfig
    from geoalign.curators.holder import Holder as Holder
    from geoalign.curators.monitor import Monitor as Monitor
    from geoalign.curators.registry import CURATORS as CURATORS
    from geoalign.curators.registry import as_curator as as_curator
    from geoalign.curators.session import CurationSession as CurationSession
    from geoalign.method.advantages import group_advantages as group_advantages
    from geoalign.method.projector import ProjectorConfig as ProjectorConfig
    from geoalign.method.ties import tied_rewards as tied_rewards
    from geoalign.testing.contract import check_curator as check_curator
    from geoalign.testing.contract import curator_checks as curator_checks
    from geoalign.types import Curation as Curation
    from geoalign.types import Rollouts as Rollouts

    audit: AuditPackage

# Beside the curators, which stand in the registry.
_HOMES = {
    "Baseline": "geoalign.curators.baselines.baseline",
    "CURATORS": "geoalign.curators.registry",
    "Curation": "geoalign.types",
    "CurationSession": "geoalign.curators.session",
    "Curator": "geoalign.curators.curator",
    "DenoiseConfig": "geoalign.curators.denoise",
    "GeoAlignConfig": "geoalign.curators.geoalign",
    "Holder": "geoalign.curators.holder",
    "ProjectorConfig": "geoalign.method.projector",
    "Rollouts": "geoalign.types",
    "as_curator": "geoalign.curators.registry",
    "audit": "geoalign.audit",
    "boxed_answers": "geoalign.answers",
    "check_curator": "geoalign.testing",
    "curator_checks": "geoalign.testing",
    "group_advantages": "geoalign.method.advantages",
    "groups_of": "geoalign.curators.baselines.baseline",
    "identity": "geoalign.curators.curator",
    "reweighted": "geoalign.curators.baselines.baseline",
    "subset": "geoalign.curators.baselines.baseline",
    "tied_rewards": "geoalign.method.ties",
}

if not TYPE_CHECKING:
    # Hidden from type checkers, for which any name would exist otherwise.
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
