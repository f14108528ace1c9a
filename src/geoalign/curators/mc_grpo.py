"""MC-GRPO: advantages around the group's median."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator, identity
from geoalign.curators.batches import groups_of, subset
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts


@settings
class MCGRPOConfig:
    """The settings of `MCGRPO` (arXiv 2601.22582)."""

    type: ClassVar[str] = "mc_grpo"

    eps: Annotated[float, Field(gt=0)] = setting(
        default=1e-3, help="Added to the median absolute deviation (the released code's value)."
    )
    zero_mad: Literal["std", "eps"] = setting(
        default="std",
        help="Scale where the MAD is 0: the standard deviation, or eps alone, as in the released code.",
    )
    drop_median: bool = setting(default=True, help="Leave the median rollout of an odd group out of the update.")


def median(values: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """The middle value, or the mean of the two middle ones (`torch.median` takes the lower of them)."""
    ascending = values.sort().values
    return (ascending[(len(values) - 1) // 2] + ascending[len(values) // 2]) / 2


def median_advantages(
    rewards: Float[Tensor, " n"], *, eps: float, zero_mad: Literal["std", "eps"]
) -> tuple[Float[Tensor, " n"], bool]:
    """A = (r - median) / (MAD + eps) in one group of rewards without NaN; equal rewards give 0.

    Where more than half of the rewards are equal the MAD is 0 (binary rewards: always, but for an even split). The
    standard deviation stands in for it then, or (`zero_mad="eps"`, as released) nothing: advantages of size 1 / eps.

    Returns:
        [n] advantages, and whether the MAD was 0 although the rewards differ.
    """
    rewards = rewards if rewards.dtype.itemsize >= 4 else rewards.float()
    if len(rewards) < 2 or bool((rewards == rewards[0]).all()):
        return torch.zeros_like(rewards), False
    centred = rewards - median(rewards)
    scale = median(centred.abs())
    without = bool(scale == 0)
    if without and zero_mad == "std":
        scale = rewards.std()
    return centred / (scale + eps), without


class MCGRPO(Curator[MCGRPOConfig]):
    """Median-centred GRPO (arXiv 2601.22582): A = (r - median) / (MAD + eps), given as `advantages`.

    In a group with an odd number of rewards one rollout IS the median and has advantage 0; it leaves the update (the
    paper draws one rollout more for it), unless `drop_median` is off. Groups of one or of equal rewards have advantage
    0 and stay whole. Rows without a reward have advantage and weight 0.
    """

    config_class = MCGRPOConfig

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Returns the advantages; draws nothing from `generator`."""
        advantages = torch.zeros(len(rollouts), dtype=torch.promote_types(rollouts.rewards.dtype, torch.float32))
        stays = torch.ones(len(rollouts), dtype=torch.bool)
        zero = 0
        for group in groups_of(rollouts):
            given, without = median_advantages(group.rewards, eps=self.config.eps, zero_mad=self.config.zero_mad)
            advantages[group.rows] = given.to(advantages.dtype)
            zero += without
            if self.config.drop_median and len(group.rows) % 2 and bool(given.any()):
                pivot = (group.rewards == median(group.rewards)).nonzero()[0, 0]
                stays[group.rows[pivot]] = False
        metrics = {"zero_mad_groups": float(zero), "medians_left_out": float((~stays).sum())}
        if bool(stays.all()):
            return replace(identity(rollouts, metrics), advantages=advantages.to(rollouts.rewards.device))
        return subset(rollouts, [stays.nonzero()[:, 0]], metrics, advantages=advantages)
