"""Noise-corrected GRPO: advantages that are right on average where verdicts are flipped at known rates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from pydantic import model_validator

from geoalign.curators.base import Baseline, identity
from geoalign.curators.denoise.model import NoisyRows, believe, joined, noisy_rows
from geoalign.method.advantages import group_advantages
from geoalign.method.groups import canonical_order
from geoalign.settings import Count, Share, setting, settings
from geoalign.types import Curation, Rollouts


@settings
class NoiseCorrectedConfig:
    type: ClassVar[str] = "noise_corrected"

    correction: Literal["forward", "backward"] = setting(
        default="forward", help="Weights in the advantage's place, or unbiased rewards without the group's deviation."
    )
    false_positive_rate: Share | None = setting(
        default=None, help="Share rho0 of wrong rows with reward 1; null: estimated."
    )
    false_negative_rate: Share | None = setting(
        default=None, help="Share rho1 of right rows with reward 0; null: estimated."
    )
    window: Count = setting(default=10, help="Batches that the rates are estimated from.")

    @model_validator(mode="after")
    def _better_than_chance(self) -> NoiseCorrectedConfig:
        wrong, missed = self.false_positive_rate, self.false_negative_rate
        if wrong is not None and missed is not None and wrong + missed >= 1:
            raise ValueError(f"false_negative_rate: expected below 1 - false_positive_rate = {1 - wrong}, got {missed}")
        return self


class NoiseCorrected(Baseline[NoiseCorrectedConfig]):
    """Corrects GRPO for binary rewards that are flipped at class-wise rates (arXiv 2510.00915, 2510.18924).

    With rho0 = P(r = 1 | wrong) and rho1 = P(r = 0 | right): `forward` returns the advantages rho1 where r = 1 and
    rho1 - 1 where r = 0, without a baseline, so that groups of equal rewards have advantages too; `backward` returns
    those of (r - rho0) / (1 - rho0 - rho1) minus the group's mean. Divided by the group's deviation the latter are
    plain GRPO's, which no correction with one pair of rates changes, so they are not divided.

    Rates that are not given are estimated from answers and identical responses over the last `window` batches
    (`geoalign.curators.denoise.model`). Where they cannot be, or J = 1 - rho0 - rho1 = TPR - FPR is
    not above 0, the batch stays as it is: J > 0 is what learning from noisy verdicts takes (arXiv 2601.04411); it is
    among the metrics.

    Heeds `answers` and `response_keys`, if a rate is estimated.
    """

    binary = True
    kept = ("past",)

    def __init__(self, config: NoiseCorrectedConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        if None in (self.config.false_positive_rate, self.config.false_negative_rate):
            self.optional = ("answers", "response_keys")
        # The rows (`NoisyRows`) of the batches that the next one's rates are estimated from.
        self._past: list[dict[str, Any]] = []

    def _curate(self, rollouts: Rollouts, generator: torch.Generator | None) -> Curation:
        false_positive, false_negative = self._rates(rollouts)
        informedness = 1 - false_positive - false_negative
        metrics = {
            "false_positive_rate": false_positive,
            "false_negative_rate": false_negative,
            "informedness": informedness,
            "corrected": float(informedness > 0),
        }
        unchanged, rewards = identity(rollouts, metrics), rollouts.rewards
        if not informedness > 0:
            return unchanged
        if self.config.correction == "forward":
            # Over verdicts on right rows the mean is rho1 (1 - rho1) + (rho1 - 1) rho1 = 0, on wrong ones rho0 rho1 +
            # (1 - rho0)(rho1 - 1) = -(1 - rho0 - rho1): so many times the true reward with baseline 1, whatever rho0.
            advantages = torch.where(rewards == 1, false_negative, false_negative - 1).to(rewards)
            return replace(unchanged, advantages=advantages.masked_fill(rewards.isnan(), 0))
        unbiased = (rewards - false_positive) / informedness
        return replace(unchanged, advantages=group_advantages(unbiased, rollouts.groups, scale="none"))

    def _rates(self, rollouts: Rollouts) -> tuple[float, float]:
        """rho0 and rho1, NaN where one is neither given nor to be estimated."""
        estimated: dict[str, float] = {}
        if self.optional:
            rows = noisy_rows(rollouts, canonical_order(rollouts.rewards, rollouts.groups), answers=True)
            self._past = [*self._past, dict(vars(rows))][-self.config.window :]
            window = joined([NoisyRows(**rows) for rows in self._past], 1.0)
            estimated = believe(window, None, least_slope=1.0).metrics
        wrong, missed = self.config.false_positive_rate, self.config.false_negative_rate
        return (
            estimated.get("false_positive_rate", math.nan) if wrong is None else wrong,
            1 - estimated.get("true_positive_rate", math.nan) if missed is None else missed,
        )
