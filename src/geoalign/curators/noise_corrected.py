"""Noise-corrected GRPO: advantages that are right on average where verdicts are flipped at known rates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor

from geoalign.curators.base import Curator, identity
from geoalign.curators.batches import require_binary
from geoalign.curators.denoise.model import NoisyRows, believe, joined, noisy_rows
from geoalign.errors import ConfigError
from geoalign.method.advantages import group_advantages
from geoalign.method.groups import canonical_order
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts


def forward_weights(verdicts: Float[Tensor, " b"], false_negative: float) -> Float[Tensor, " b"]:
    """rho1 where the verdict is 1, rho1 - 1 where it is 0; 0 where it is NaN.

    Their mean is rho1 (1 - rho1) + (rho1 - 1) rho1 = 0 over verdicts on right rows and rho0 rho1 + (1 - rho0)(rho1 - 1)
    = -(1 - rho0 - rho1) over those on wrong rows: 1 - rho0 - rho1 times the true reward with baseline 1, whatever rho0.
    """
    return torch.where(verdicts == 1, false_negative, false_negative - 1).masked_fill(verdicts.isnan(), 0).to(verdicts)


def backward_rewards(
    verdicts: Float[Tensor, " b"], false_positive: float, false_negative: float
) -> Float[Tensor, " b"]:
    """(r - rho0) / (1 - rho0 - rho1), whose mean over verdicts on a row is the row's true reward."""
    return (verdicts - false_positive) / (1 - false_positive - false_negative)


@settings
class NoiseCorrectedConfig:
    """The settings of `NoiseCorrected` (arXiv 2510.00915)."""

    type: ClassVar[str] = "noise_corrected"

    correction: Literal["forward", "backward"] = setting(
        default="forward", help="Weights in the advantage's place, or unbiased rewards without the group's deviation."
    )
    false_positive_rate: Annotated[float, Field(ge=0, lt=1)] | None = setting(
        default=None, help="Share rho0 of wrong rows with reward 1; null: estimated."
    )
    false_negative_rate: Annotated[float, Field(ge=0, lt=1)] | None = setting(
        default=None, help="Share rho1 of right rows with reward 0; null: estimated."
    )
    window: Annotated[int, Field(ge=1)] = setting(default=10, help="Batches that the rates are estimated from.")

    @model_validator(mode="after")
    def _better_than_chance(self) -> NoiseCorrectedConfig:
        wrong, missed = self.false_positive_rate, self.false_negative_rate
        if wrong is not None and missed is not None and wrong + missed >= 1:
            raise ValueError(f"false_negative_rate: expected below 1 - false_positive_rate = {1 - wrong}, got {missed}")
        return self


class NoiseCorrected(Curator[NoiseCorrectedConfig]):
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

    Raises:
        InputError: a reward is neither 0 nor 1 (nor NaN).
    """

    optional: tuple[str, ...] = ("answers", "response_keys")

    def __init__(self, config: NoiseCorrectedConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self._estimates = None in (self.config.false_positive_rate, self.config.false_negative_rate)
        if not self._estimates:
            self.optional = ()
        self._past: list[NoisyRows] = []

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Returns the corrected advantages; draws nothing from `generator`."""
        require_binary(rollouts, by="NoiseCorrected")
        rates = self._rates(rollouts)
        informedness = 1 - rates[0] - rates[1]
        unchanged = identity(
            rollouts,
            {
                "false_positive_rate": rates[0],
                "false_negative_rate": rates[1],
                "informedness": informedness,
                "corrected": float(informedness > 0),
                "unscored_rewards": float(rollouts.rewards.isnan().sum()),
            },
        )
        if not informedness > 0:
            return unchanged
        if self.config.correction == "forward":
            return replace(unchanged, advantages=forward_weights(rollouts.rewards, rates[1]))
        rewards = backward_rewards(rollouts.rewards, *rates)
        return replace(unchanged, advantages=group_advantages(rewards, rollouts.groups, scale="none"))

    def state_dict(self) -> dict[str, Any]:
        """The rows of the batches that the next one's rates are estimated from."""
        return {"past": [vars(rows) for rows in self._past]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`."""
        if set(state) != {"past"}:
            raise ConfigError(f"NoiseCorrected state: expected the key past, got {sorted(state)}")
        self._past = [NoisyRows(**rows) for rows in state["past"]]

    def _rates(self, rollouts: Rollouts) -> tuple[float, float]:
        """rho0 and rho1, NaN where one is neither given nor to be estimated."""
        rates: dict[str, float] = {}
        if self._estimates and len(rollouts):
            rows = noisy_rows(rollouts, canonical_order(rollouts.rewards, rollouts.groups), answers=True)
            self._past = [*self._past, rows][-self.config.window :]
            rates = believe(joined(self._past, 1.0), None, least_slope=1.0).metrics
        wrong, missed = self.config.false_positive_rate, self.config.false_negative_rate
        return (
            rates.get("false_positive_rate", math.nan) if wrong is None else wrong,
            1 - rates.get("true_positive_rate", math.nan) if missed is None else missed,
        )
