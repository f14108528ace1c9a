"""GeoAlign, or any other curator, inside TRL's GRPO. TRL is imported when a trainer is first asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geoalign.adapters.exports import lazy_exports

if TYPE_CHECKING:
    from geoalign.adapters.trl.curate import CuratedStep
    from geoalign.adapters.trl.failing_rewards import unscored_on_failure
    from geoalign.adapters.trl.mixin import GeoAlignGRPOTrainer, GeoAlignMixin
    from geoalign.answers import boxed_answers
    from geoalign.curators.labelled_rollouts import LabelledRollouts

__all__ = [
    "CuratedStep",
    "GeoAlignGRPOTrainer",
    "GeoAlignMixin",
    "LabelledRollouts",
    "boxed_answers",
    "unscored_on_failure",
]

_HOMES = {
    "LabelledRollouts": "geoalign.curators.labelled_rollouts",
    "CuratedStep": "geoalign.adapters.trl.curate",
    "GeoAlignGRPOTrainer": "geoalign.adapters.trl.mixin",
    "GeoAlignMixin": "geoalign.adapters.trl.mixin",
    "boxed_answers": "geoalign.answers",
    "unscored_on_failure": "geoalign.adapters.trl.failing_rewards",
}

if not TYPE_CHECKING:  # for type checkers any name would exist otherwise
    __getattr__ = lazy_exports(__name__, _HOMES, "pip install 'geoalign[trl]'")
