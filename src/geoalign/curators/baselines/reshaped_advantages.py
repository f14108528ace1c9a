"""Baselines that change how a reward becomes an advantage, and plain GRPO, which changes nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Generator, Tensor

from geoalign.curators.baselines.baseline import Baseline, groups_of, reweighted, subset
from geoalign.curators.curator import Curator, identity
from geoalign.intervals import mean_of
from geoalign.method.advantages import group_advantages
from geoalign.method.groups import canonical_order
from geoalign.method.ties import power_of_two
from geoalign.noise.posterior import infer
from geoalign.noise.rows import joined_batches, noisy_rows
from geoalign.settings import Count, OpenShare, Positive, Share, setting, settings
from geoalign.types import Curation, Rollouts


@settings
class IdentityConfig:
    type: ClassVar[str] = "grpo"


class GRPO(Curator[IdentityConfig]):
    """Returns every batch unchanged: the base line of every comparison."""

    acts_on = ()
    scores_rows = False

    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        return identity(rollouts)


@settings
class MCGRPOConfig:
    type: ClassVar[str] = "mc_grpo"

    eps: Positive = setting(default=1e-3, help="Added to the median absolute deviation (the released code's value).")
    drop_median: bool = setting(default=True, help="Leave the median rollout of an odd group out of the update.")


def median(values: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """The middle value, or the mean of the two middle ones (`torch.median` takes the lower of them)."""
    ascending = values.sort().values
    return (ascending[(len(values) - 1) // 2] + ascending[len(values) // 2]) / 2


class MCGRPO(Baseline[MCGRPOConfig]):
    """Median-centred GRPO (arXiv 2601.22582): A = (r - median) / (MAD + eps), given as `advantages`.

    In a group with an odd number of rewards one rollout IS the median and has advantage 0; it leaves the update (the
    paper draws one rollout more for it), unless `drop_median` is off. Groups of one or of equal rewards have advantage
    0 and stay whole. Rows without a reward have advantage and weight 0. Where the MAD is 0, as it is where more than
    half of the rewards are equal, the standard deviation stands in for it (the released code: nothing).
    """

    scores_rows = False

    def declare(self) -> None:
        """Rows leave the update only with `drop_median`."""
        self.acts_on = ("rows", "advantages") if self.config.drop_median else ("advantages",)
        self.drops_rows = self.config.drop_median

    def _curate(self, rollouts: Rollouts, generator: Generator | None) -> Curation:
        advantages = torch.zeros_like(rollouts.rewards)
        stays = torch.ones(len(rollouts), dtype=torch.bool)
        zero_mad_groups = 0
        for group in groups_of(rollouts):
            if not group.varies:
                continue
            # In units of the largest reward, so that squares stay in range.
            unit = power_of_two(group.rewards.abs().max())
            scaled = group.rewards / unit
            centred = scaled - median(scaled)
            scale = median(centred.abs())
            if bool(scale == 0):
                zero_mad_groups += 1
                scale = scaled.std()
            advantages[group.rows] = centred / (scale + self.config.eps / unit)
            if self.config.drop_median and len(group.rows) % 2:
                pivot = (group.rewards == median(group.rewards)).nonzero()[0, 0]
                stays[group.rows[pivot]] = False
        metrics = {"zero_mad_groups": float(zero_mad_groups), "medians_left_out": float((~stays).sum())}
        if bool(stays.all()):
            return replace(identity(rollouts, metrics), advantages=advantages)
        return subset(rollouts, [stays.nonzero()[:, 0]], metrics, advantages=advantages)


@settings
class QuantileBaselineConfig:
    type: ClassVar[str] = "quantile"

    quantile: OpenShare = setting(default=0.4, help="Level K of the quantile that is the baseline.")
    scale: Literal["std", "none"] = setting(default="std", help="Divide by the group's standard deviation, or not.")


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

    acts_on = ("advantages",)
    scores_rows = False

    def _curate(self, rollouts: Rollouts, generator: Generator | None) -> Curation:
        advantages = torch.zeros_like(rollouts.rewards)
        for group in groups_of(rollouts):
            if group.varies:
                # In units of the largest reward, so that squares stay in range.
                unit = power_of_two(group.rewards.abs().max())
                scaled = group.rewards / unit
                centred = scaled - lower_quantile(scaled, self.config.quantile)
                if self.config.scale == "std":
                    advantages[group.rows] = centred / (scaled.std() + 1e-6 / unit)
                else:
                    largest = torch.finfo(centred.dtype).max
                    advantages[group.rows] = (centred * unit).clamp(min=-largest, max=largest)
        return replace(identity(rollouts, {"zero_advantages": float((advantages == 0).sum())}), advantages=advantages)


# The paper's constant under both roots.
EPSILON = 1e-8


def noise_aware_weight(success: Float[Tensor, " g"], flip_rate: float) -> Float[Tensor, " g"]:
    """The factor on the std-normalised advantages of groups with observed success rates q, under flips of rate p < 1/2.

    t = clip((q - p) / (1 - 2p), 0, 1) is the success rate behind the flips; the weight
    (1 - 2p) t (1 - t) / (sqrt(q (1 - q) + 1e-8) sqrt(t (1 - t) + 1e-8)) is 0 where the flips alone explain what came.
    """
    success = success.double()
    clean = ((success - flip_rate) / (1 - 2 * flip_rate)).clamp(0, 1)
    # t (1 - t), and q (1 - q).
    spread = clean * (1 - clean)
    observed = success * (1 - success)
    deviations = torch.sqrt(observed + EPSILON) * torch.sqrt(spread + EPSILON)
    weight = (1 - 2 * flip_rate) * spread / deviations
    return weight.float()


@settings
class SGRPOConfig:
    type: ClassVar[str] = "s_grpo"

    flip_rate: Annotated[float, Field(ge=0, lt=0.5)] = setting(default=0.1, help="Assumed share p of flipped rewards.")


class SGRPO(Baseline[SGRPOConfig]):
    """Noise-aware GRPO for binary rewards (arXiv 2508.05928): weighs each group by what its success rate says.

    With an assumed flip rate p and k of n rewards 1: t = clip((k/n - p)/(1 - 2p), 0, 1), and the weight on the
    std-normalised advantages, after them, is the optimal one under such flips: 0 where t is 0 or 1 (equal rewards).
    """

    headline = ("group_weight",)

    binary_rewards = True
    acts_on = ("weights",)
    scores_rows = False

    def _curate(self, rollouts: Rollouts, generator: Generator | None) -> Curation:
        groups = groups_of(rollouts)
        ones = [float(group.rewards.double().sum()) for group in groups]
        sizes = [max(len(group.rows), 1) for group in groups]
        success = torch.tensor(ones, dtype=torch.float64) / torch.tensor(sizes, dtype=torch.float64)
        group_weights = noise_aware_weight(success, self.config.flip_rate)
        weights = torch.ones(len(rollouts), dtype=torch.float32)
        for group, weight in zip(groups, group_weights, strict=True):
            weights[group.rows] = weight
        metrics = {
            "group_weight": mean_of(group_weights.tolist()),
            "zero_weight_groups": float((group_weights == 0).sum()),
        }
        return reweighted(rollouts, weights, metrics)


@settings
class NoiseCorrectedConfig:
    type: ClassVar[str] = "noise_corrected"

    correction: Literal["forward", "backward"] = setting(
        default="forward", help="Weights in the advantage's place, or unbiased rewards without the group's deviation."
    )
    false_positive_rate: Share | None = setting(default=None, help="Rate rho0 of wrong rows rewarded; null: estimated.")
    false_negative_rate: Share | None = setting(default=None, help="Rate rho1 of right rows refused; null: estimated.")
    window: Count = setting(default=10, help="Batches that the rates are estimated from.")

    @model_validator(mode="after")
    def _better_than_chance(self) -> NoiseCorrectedConfig:
        rho0 = self.false_positive_rate
        rho1 = self.false_negative_rate
        if rho0 is not None and rho1 is not None and rho0 + rho1 >= 1:
            raise ValueError(f"false_negative_rate: expected below 1 - false_positive_rate = {1 - rho0}, got {rho1}")
        return self


class NoiseCorrected(Baseline[NoiseCorrectedConfig]):
    """Corrects GRPO for binary rewards that are flipped at class-wise rates (arXiv 2510.00915, 2510.18924).

    With rho0 = P(r = 1 | wrong) and rho1 = P(r = 0 | right): `forward` returns the advantages rho1 where r = 1 and
    rho1 - 1 where r = 0, without a baseline, so that groups of equal rewards have advantages too; `backward` returns
    those of (r - rho0) / (1 - rho0 - rho1) minus the group's mean. Divided by the group's deviation the latter are
    plain GRPO's, which no correction with one pair of rates changes, so they are not divided.

    Rates that are not given are estimated from answers and identical responses over the last `window` batches
    (`geoalign.noise.posterior`). Learning from noisy verdicts takes J = 1 - rho0 - rho1 = TPR - FPR above 0 (arXiv
    2601.04411), which is among the metrics. The batch stays as it is where rates cannot be estimated, or where J is not
    above 0. Of two estimated rates it always is, even of a coin: nothing here tests whether they may be believed.

    Heeds `answers`, `response_keys` and `trusted`, if a rate is estimated.
    """

    headline = ("false_positive_rate", "false_negative_rate")

    binary_rewards = True
    kept = ("past",)
    acts_on = ("advantages",)
    scores_rows = False

    def __init__(self, config: NoiseCorrectedConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        # The fields of the rows (`NoisyRows`) of the batches that the next one's rates are estimated from.
        self._past: list[dict[str, Any]] = []

    def declare(self) -> None:
        """Answers and trusted rows are read only for a rate that is not given; `forward` has no baseline."""
        self.absolute_advantages = self.config.correction == "forward"
        if None in (self.config.false_positive_rate, self.config.false_negative_rate):
            self.optional = ("answers", "response_keys", "trusted")
            self.answer_reading = "exclusive"
            self.pooled_batches = self.config.window

    def _curate(self, rollouts: Rollouts, generator: Generator | None) -> Curation:
        false_positive, false_negative = self._rates(rollouts)
        informedness = 1 - false_positive - false_negative
        metrics = {
            "false_positive_rate": false_positive,
            "false_negative_rate": false_negative,
            "informedness": informedness,
            "corrected": float(informedness > 0),
        }
        unchanged = identity(rollouts, metrics)
        rewards = rollouts.rewards
        if not informedness > 0:
            return unchanged
        if self.config.correction == "forward":
            # Over verdicts on right rows the mean is rho1 (1 - rho1) + (rho1 - 1) rho1 = 0, on wrong ones rho0 rho1 +
            # (1 - rho0)(rho1 - 1) = -(1 - rho0 - rho1): so many times the true reward with baseline 1, whatever rho0.
            missed = torch.full_like(rewards, false_negative)
            advantages = torch.where(rewards == 1, missed, missed - 1)
            return replace(unchanged, advantages=advantages.masked_fill(rewards.isnan(), 0))
        unbiased = (rewards - false_positive) / informedness
        return replace(unchanged, advantages=group_advantages(unbiased, rollouts.groups, scale="none"))

    def _rates(self, rollouts: Rollouts) -> tuple[float, float]:
        """rho0 and rho1, NaN where one is neither given nor to be estimated."""
        estimated: dict[str, float] = {}
        if self.optional:
            rows = noisy_rows(rollouts, canonical_order(rollouts.rewards, rollouts.groups), answers=True)
            # A batch without a single reward says nothing, and takes no other's place in the window.
            if bool(rows.scored.any()):
                self._past = [*self._past, dict(vars(rows))][-self.config.window :]
            if self._past:
                estimated = infer(joined_batches(self._past, 1.0), None, least_slope=1.0).metrics
        rho0 = self.config.false_positive_rate
        if rho0 is None:
            rho0 = estimated.get("false_positive_rate", math.nan)
        rho1 = self.config.false_negative_rate
        if rho1 is None:
            rho1 = 1 - estimated.get("true_positive_rate", math.nan)
        return rho0, rho1
