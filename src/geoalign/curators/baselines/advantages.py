"""Baselines that change how a reward becomes an advantage, and plain GRPO, which changes nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Baseline, Curator, identity
from geoalign.curators.batches import groups_of, reweighted, subset
from geoalign.method.intervals import mean_of
from geoalign.settings import OpenShare, Positive, setting, settings
from geoalign.types import Curation, Rollouts


@settings
class IdentityConfig:
    type: ClassVar[str] = "grpo"


class GRPO(Curator[IdentityConfig]):
    """Returns every batch unchanged: the base line of every comparison."""

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        return identity(rollouts)


def no_advantages(rollouts: Rollouts) -> Float[Tensor, " b"]:
    """[B] zeros on the CPU to write advantages into."""
    return torch.zeros(len(rollouts), dtype=rollouts.rewards.dtype)


@settings
class MCGRPOConfig:
    type: ClassVar[str] = "mc_grpo"

    eps: Positive = setting(default=1e-3, help="Added to the median absolute deviation (the released code's value).")
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
    """A = (r - median) / (MAD + eps) of different rewards, and whether the MAD was 0.

    That it is where more than half of the rewards are equal (binary rewards: always, but for an even split). The
    standard deviation stands in for it then, or (`zero_mad="eps"`, as released) nothing: advantages of size 1 / eps.
    """
    centred = rewards - median(rewards)
    scale = median(centred.abs())
    without = bool(scale == 0)
    if without and zero_mad == "std":
        scale = rewards.std()
    return centred / (scale + eps), without


class MCGRPO(Baseline[MCGRPOConfig]):
    """Median-centred GRPO (arXiv 2601.22582): A = (r - median) / (MAD + eps), given as `advantages`.

    In a group with an odd number of rewards one rollout IS the median and has advantage 0; it leaves the update (the
    paper draws one rollout more for it), unless `drop_median` is off. Groups of one or of equal rewards have advantage
    0 and stay whole. Rows without a reward have advantage and weight 0.
    """

    def _curate(self, rollouts: Rollouts, generator: torch.Generator | None) -> Curation:
        advantages, stays = no_advantages(rollouts), torch.ones(len(rollouts), dtype=torch.bool)
        zero = 0
        for group in groups_of(rollouts):
            if not group.varies:
                continue
            given, without = median_advantages(group.rewards, eps=self.config.eps, zero_mad=self.config.zero_mad)
            advantages[group.rows] = given
            zero += without
            if self.config.drop_median and len(group.rows) % 2:
                pivot = (group.rewards == median(group.rewards)).nonzero()[0, 0]
                stays[group.rows[pivot]] = False
        metrics = {"zero_mad_groups": float(zero), "medians_left_out": float((~stays).sum())}
        if bool(stays.all()):
            return replace(identity(rollouts, metrics), advantages=advantages.to(rollouts.rewards.device))
        return subset(rollouts, [stays.nonzero()[:, 0]], metrics, advantages=advantages)


@settings
class QuantileBaselineConfig:
    type: ClassVar[str] = "quantile"

    quantile: OpenShare = setting(default=0.4, help="Level K of the quantile that is the baseline.")
    scale: Literal["std", "none"] = setting(
        default="std", help="Divide by the group's standard deviation, or by nothing."
    )


def lower_quantile(values: Float[Tensor, " n"], level: float) -> Float[Tensor, ""]:
    """The smallest value that at least a share `level` of the values does not exceed (no interpolation)."""
    # Half a millionth of a rank: 0.4 * 5 must not become rank 3 by rounding.
    rank = max(1, math.ceil(level * len(values) - 5e-7))
    return values.sort().values[rank - 1]


class QuantileBaseline(Baseline[QuantileBaselineConfig]):
    """Quantile advantage estimation (arXiv 2509.22611): A = (r - Q_K) / (std + 1e-6), given as `advantages`.

    Q_K is the smallest reward that a share K of the group does not exceed. With binary rewards of success rate p it is
    0 where p <= 1 - K, so that only successes count, and 1 beyond, so that only failures do. Groups of one or of equal
    rewards have advantage 0, and so have rows without a reward.
    """

    def _curate(self, rollouts: Rollouts, generator: torch.Generator | None) -> Curation:
        advantages = no_advantages(rollouts)
        for group in groups_of(rollouts):
            if group.varies:
                centred = group.rewards - lower_quantile(group.rewards, self.config.quantile)
                advantages[group.rows] = (
                    centred / (group.rewards.std() + 1e-6) if self.config.scale == "std" else centred
                )
        metrics = {"zero_advantages": float((advantages == 0).sum())}
        return replace(identity(rollouts, metrics), advantages=advantages.to(rollouts.rewards.device))


# The paper's constant under both roots.
EPSILON = 1e-8


def noise_aware_weight(success: Float[Tensor, " g"], flip_rate: float) -> Float[Tensor, " g"]:
    """The factor on the std-normalised advantages of groups with observed success rates q, under flips of rate p < 1/2.

    t = clip((q - p) / (1 - 2p), 0, 1) is the success rate behind the flips; the weight
    (1 - 2p) t (1 - t) / (sqrt(q (1 - q) + 1e-8) sqrt(t (1 - t) + 1e-8)) is 0 where the flips alone explain what came.
    """
    success = success.double()
    clean = ((success - flip_rate) / (1 - 2 * flip_rate)).clamp(0, 1)
    spread, observed = clean * (1 - clean), success * (1 - success)
    weight = (1 - 2 * flip_rate) * spread / (torch.sqrt(observed + EPSILON) * torch.sqrt(spread + EPSILON))
    return weight.float()


@settings
class SGRPOConfig:
    type: ClassVar[str] = "s_grpo"

    flip_rate: Annotated[float, Field(ge=0, lt=0.5)] = setting(
        default=0.1, help="Assumed share p of rewards that are flipped."
    )


class SGRPO(Baseline[SGRPOConfig]):
    """Noise-aware GRPO for binary rewards (arXiv 2508.05928): weighs each group by what its success rate says.

    With an assumed flip rate p and k of n rewards 1: t = clip((k/n - p)/(1 - 2p), 0, 1), and the weight on the
    std-normalised advantages is the one that is optimal under such flips. It acts after the advantage, as `weights`.
    """

    binary = True

    def _curate(self, rollouts: Rollouts, generator: torch.Generator | None) -> Curation:
        groups = groups_of(rollouts)
        success = [float(group.rewards.double().sum()) / max(len(group.rows), 1) for group in groups]
        of_groups = noise_aware_weight(torch.tensor(success, dtype=torch.float64), self.config.flip_rate)
        weights = torch.ones(len(rollouts))
        for group, weight in zip(groups, of_groups, strict=True):
            weights[group.rows] = weight
        metrics = {"group_weight": mean_of(of_groups.tolist()), "zero_weight_groups": float((of_groups == 0).sum())}
        return reweighted(rollouts, weights, metrics)
