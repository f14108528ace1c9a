"""A quantile of the group's rewards as baseline, instead of their mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field

from geoalign.curators.base import Curator, identity
from geoalign.curators.batches import groups_of
from geoalign.method.quantile_advantages import quantile_advantages
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts


@settings
class QuantileBaselineConfig:
    """The settings of `QuantileBaseline` (arXiv 2509.22611)."""

    type: ClassVar[str] = "quantile"

    quantile: Annotated[float, Field(gt=0, lt=1)] = setting(
        default=0.4, help="Level K of the quantile that is the baseline."
    )
    scale: Literal["std", "none"] = setting(
        default="std", help="Divide by the group's standard deviation, or by nothing."
    )


class QuantileBaseline(Curator[QuantileBaselineConfig]):
    """Quantile advantage estimation (arXiv 2509.22611): A = (r - Q_K) / (std + 1e-6), given as `advantages`.

    Q_K is the smallest reward that a share K of the group does not exceed. Groups of one or of equal rewards have
    advantage 0, and so have rows without a reward.
    """

    config_class = QuantileBaselineConfig

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Returns the advantages; draws nothing from `generator`."""
        advantages = torch.zeros(len(rollouts), dtype=torch.promote_types(rollouts.rewards.dtype, torch.float32))
        for group in groups_of(rollouts):
            given = quantile_advantages(group.rewards, level=self.config.quantile, scale=self.config.scale)
            advantages[group.rows] = given.to(advantages.dtype)
        metrics = {
            "zero_advantages": float((advantages == 0).sum()),
            "unscored_rewards": float(rollouts.rewards.isnan().sum()),
        }
        return replace(identity(rollouts, metrics), advantages=advantages.to(rollouts.rewards.device))
