"""Confident learning: rewards that a cross-fitted probe contradicts with the confidence usual for the other class."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator, hidden_states, identity
from geoalign.curators.batches import canonical_rows, require_binary
from geoalign.curators.precision import full_precision
from geoalign.curators.predicting import PastPrediction
from geoalign.curators.rectifying import Flags, Strategy, rectify
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts

# A probability reaches a threshold that it misses by this much: cleanlab's tolerance.
_SLACK = 1e-6


def linear_probability(rewards: Float[Tensor, " n"], predictions: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """P(right) = q + sqrt(q (1 - q)) z, clipped to [0, 1], q the mean of the rewards (0 or 1), z standardised."""
    share = rewards.mean()
    return (share + (share * (1 - share)).sqrt() * predictions).clamp(0, 1)


def confidently_wrong(
    rewards: Float[Tensor, " n"], right: Float[Tensor, " n"]
) -> tuple[Bool[Tensor, " n"], tuple[float, float]]:
    """Rows off the diagonal of the confident joint, and the thresholds of right and wrong.

    A class' threshold is the mean probability of that class over the rows labelled so: t1 = mean of P(right) where
    r = 1, t0 = mean of 1 - P(right) where r = 0. A row is confidently of a class whose probability reaches the
    threshold; of both, of the more probable one; of none where neither does. It is flagged if it is confidently of the
    class that its reward denies. Nothing is flagged where a class has no rows or all probabilities are equal.

    Args:
        rewards: [N] 0 or 1.
        right: [N] P(right), from a fit that did not see the row.
    """
    ones = rewards == 1
    if not bool(ones.any()) or bool(ones.all()):
        return torch.zeros_like(ones), (torch.nan, torch.nan)
    thresholds = right[ones].mean(), (1 - right[~ones]).mean()
    for_right, for_wrong = right >= thresholds[0] - _SLACK, 1 - right >= thresholds[1] - _SLACK
    surely_right = for_right & (~for_wrong | (right > 0.5))
    surely_wrong = for_wrong & ~surely_right
    flagged = torch.where(ones, surely_wrong, surely_right) & bool((right != right[0]).any())
    return flagged, (float(thresholds[0]), float(thresholds[1]))


@settings
class ConfidentLearningConfig:
    """The settings of `ConfidentLearning`."""

    type: ClassVar[str] = "confident_learning"

    strategy: Strategy = setting(default="zero_weight", help="What happens to flagged rollouts.")
    decay: Annotated[float, Field(gt=0, le=1)] = setting(
        default=0.9, help="Weight of a batch in the probe, relative to the next."
    )


class ConfidentLearning(Curator[ConfidentLearningConfig]):
    """Flags the off-diagonal rows of cleanlab's confident joint (arXiv 1911.00068) and rectifies them.

    The probe is a ridge regression on the states of earlier batches (on the first batch: by folds over its groups),
    read as a linear probability of being right; it says how a row compares with its group. The thresholds are means of
    it, so an affine change of the predictions flags the same rows where one threshold alone is reached. Rows of groups
    with different rewards are judged, all of a batch together. There is no cap and no gate: of a probe that has learned
    nothing about half of the rows reach the other class' mean.

    `scores` are the probability that the reward is wrong. Needs `hidden`.

    Raises:
        InputError: a reward is neither 0 nor 1 (nor NaN); `hidden` is missing or its width differs from earlier calls.
    """

    config_class = ConfidentLearningConfig
    requires = ("hidden",)

    def __init__(self, config: ConfidentLearningConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self._probe = PastPrediction(decay=self.config.decay)

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Flags and rectifies; draws from `generator` with `strategy` replace and amplify only."""
        require_binary(rollouts, by="ConfidentLearning")
        hidden = hidden_states(rollouts, by="ConfidentLearning")
        if not len(rollouts):
            return identity(rollouts)
        with full_precision(rollouts):
            rows = canonical_rows(rollouts)
            predicted = self._probe(rollouts.rewards, hidden, rows)
            judged = predicted.judged
            scores = torch.full((len(rollouts),), torch.nan)
            flagged = torch.zeros(len(rollouts), dtype=torch.bool)
            rewards = predicted.rewards[judged]
            right = linear_probability(rewards, predicted.values[judged]) if len(rewards) else rewards
            flagged[judged], thresholds = confidently_wrong(rewards, right)
            scores[judged] = torch.where(rewards == 1, 1 - right, right).float()
            device = rows.order.device
            return rectify(
                rollouts,
                rows,
                scores.to(device),
                Flags(
                    suspect=flagged.to(device),
                    anomalous=flagged.to(device),
                    stable=(judged & ~flagged).to(device),
                    zero_spread=not predicted.varies,
                ),
                strategy=self.config.strategy,
                observing=False,
                generator=generator,
                metrics={
                    "right_threshold": thresholds[0],
                    "wrong_threshold": thresholds[1],
                    "flagged_ones": float((flagged & (predicted.rewards == 1)).sum()),
                    "scored_rollouts": float(judged.sum()),
                    "unscored_rewards": float(rollouts.rewards.isnan().sum()),
                },
            )

    def state_dict(self) -> dict[str, Any]:
        """The probe's fit."""
        return self._probe.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`."""
        self._probe.load_state_dict(state, by="ConfidentLearning")
