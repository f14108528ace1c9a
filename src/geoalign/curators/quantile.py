"""A quantile of the group's rewards as baseline, instead of their mean."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator, identity
from geoalign.curators.batches import groups_of
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


def lower_quantile(values: Float[Tensor, " n"], level: float) -> Float[Tensor, ""]:
    """The smallest value that at least a share `level` of the values does not exceed (no interpolation)."""
    ascending = values.sort().values
    # Half a millionth of a rank: 0.4 * 5 must not become rank 3 by rounding.
    rank = max(1, math.ceil(level * len(values) - 5e-7))
    return ascending[rank - 1]


def quantile_advantages(
    rewards: Float[Tensor, " n"], *, level: float, scale: Literal["std", "none"], eps: float = 1e-6
) -> Float[Tensor, " n"]:
    """A = (r - Q_level) / (std + eps) in one group of rewards without NaN; equal rewards give 0.

    With binary rewards of success rate p the baseline is 0 where p <= 1 - level, so that only successes count, and 1
    beyond, so that only failures do.
    """
    rewards = rewards if rewards.dtype.itemsize >= 4 else rewards.float()
    if len(rewards) < 2 or bool((rewards == rewards[0]).all()):
        return torch.zeros_like(rewards)
    centred = rewards - lower_quantile(rewards, level)
    return centred / (rewards.std() + eps) if scale == "std" else centred


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
