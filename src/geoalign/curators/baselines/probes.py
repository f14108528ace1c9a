"""Baselines that hold a reward against a fit on the hidden states of earlier batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from geoalign.curators.baselines.baseline import Baseline, canonical_rows, groups_of, half_of_group, subset
from geoalign.curators.curator import identity
from geoalign.curators.rectifying import Flags, Strategy, declare_strategy, rectify
from geoalign.errors import InputError
from geoalign.method.advantages import group_advantages
from geoalign.method.arithmetic import full_product
from geoalign.method.groups import GroupedRows, canonical_order, group_centred, in_input_order
from geoalign.noise.ridge import predict_next
from geoalign.settings import PositiveShare, Several, setting, settings
from geoalign.types import Curation, Rollouts

_Config = TypeVar("_Config")


@settings
class NearestCentroidConfig:
    type: ClassVar[str] = "nearest_centroid"

    decay: PositiveShare = setting(
        default=0.9, help="Weight of a batch in the centroids, relative to the next; 1: all alike, as in the paper."
    )


class NearestCentroid(Baseline[NearestCentroidConfig]):
    """Replaces every reward by 1 or 0, whichever centroid of earlier batches is nearer (CLUE, arXiv 2510.01591).

    The centroids are the mean states of rows with reward 1 and with reward 0 in earlier batches, so the first batch
    stays as it is. The paper subtracts the state at the start of a response's reasoning from that at its end, layer by
    layer, and averages the distances over layers; here a state is centred within its group, which removes the prompt
    but also how good the group is as a whole, and there is one state a row. Groups of equal rewards are given verdicts,
    but enter no centroid: their centred states say nothing of right and wrong.

    `scores` are the Euclidean distance to the centroid of the reward's own class minus that to the other's; rows above
    0 are anomalous: their reward changes. Halfway a reward stays. NaN rewards stay NaN.
    """

    binary_rewards = True
    requires = ("hidden",)
    acts_on = ("rewards",)
    kept = ("sums", "counts")

    def __init__(self, config: NearestCentroidConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        # [2, d] decayed sums of states with reward 0 and 1, and [2] their numbers.
        self._sums: Tensor | None = None
        self._counts = torch.zeros(2, dtype=torch.float32)

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        hidden = rollouts.hidden
        assert hidden is not None
        if self._sums is not None and self._sums.shape[1] != hidden.shape[1]:
            raise InputError(f"hidden: expected {self._sums.shape[1]} columns as earlier, got {hidden.shape[1]}")
        rows = canonical_order(rollouts.rewards, rollouts.groups, hidden)
        states = group_centred(hidden[rows.order], rows.group)
        # What earlier batches left: this one is judged by it, and then added.
        sums = self._sums
        counts = self._counts
        rewards = rollouts.rewards
        sorted_rewards = rewards[rows.order]
        unequal = group_advantages(sorted_rewards, rows.group, scale="none") != 0
        kinds = torch.stack([unequal & (sorted_rewards == 0), unequal & (sorted_rewards == 1)]).to(states)
        self._sums = full_product(kinds, states) + (0 if sums is None else self.config.decay * sums)
        self._counts = self.config.decay * counts + kinds.sum(dim=1)
        if sums is None or not bool((counts > 0).all()):
            return identity(rollouts, {"judged": 0.0, "changed_rewards": 0.0})
        failure, success = sums / counts[:, None]
        # |x - success| - |x - failure|, above 0 for states nearer to the failures.
        margin = (states - success).norm(dim=1) - (states - failure).norm(dim=1)
        margin = in_input_order(rows, margin.device)(margin)
        scores = torch.where(rewards == 1, margin, -margin).masked_fill(rewards.isnan(), torch.nan)
        wrong = scores > 0
        unchanged = identity(rollouts, {"judged": 1.0, "changed_rewards": float(wrong.sum())})
        return replace(unchanged, rewards=torch.where(wrong, 1 - rewards, rewards), scores=scores, anomalous=wrong)


class Predicting(Baseline[_Config]):
    """A curator that holds binary rewards against what a ridge on earlier batches' states predicts of them."""

    binary_rewards = True
    requires = ("hidden",)
    kept = ("ridge",)

    def __init__(self, config: _Config | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self._ridge: dict[str, Any] = {}

    def _predict(self, rollouts: Rollouts, rows: GroupedRows) -> tuple[Tensor, Tensor, bool]:
        """Predicts the batch, then takes it in; the first batch is predicted by folds over its groups.

        Returns:
            [B] predictions of the rewards standardised within groups (0 where there is nothing to predict from), and
            [B] rows of groups with different rewards, both in sorted order; and whether the predictions tell any of
            these rows apart.
        """
        assert rollouts.hidden is not None
        states = group_centred(rollouts.hidden[rows.order], rows.group)
        y = group_advantages(rollouts.rewards.double()[rows.order], rows.group)
        judged = y != 0
        of_any: Any = self.config
        values, self._ridge = predict_next(self._ridge, states, y, judged, rows.group, decay=of_any.decay)
        values = values.double()
        telling = values[judged]
        return values, judged, bool((telling != telling[:1]).any())


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
    t1 = right[ones].mean()
    t0 = (1 - right[~ones]).mean()
    reaches_right = right >= t1 - _SLACK
    reaches_wrong = 1 - right >= t0 - _SLACK
    surely_right = reaches_right & (~reaches_wrong | (right > 0.5))
    surely_wrong = reaches_wrong & ~surely_right
    varies = bool((right != right[0]).any())
    flagged = torch.where(ones, surely_wrong, surely_right) & varies
    return flagged, (float(t1), float(t0))


@settings
class ConfidentLearningConfig:
    type: ClassVar[str] = "confident_learning"

    strategy: Strategy = setting(default="zero_weight", help="What happens to flagged rollouts.")
    decay: PositiveShare = setting(default=0.9, help="Weight of a batch in the probe, relative to the next.")


class ConfidentLearning(Predicting[ConfidentLearningConfig]):
    """Flags the off-diagonal rows of cleanlab's confident joint (arXiv 1911.00068) and rectifies them.

    The probe is a ridge regression on the states of earlier batches (on the first batch: by folds over its groups),
    read as a linear probability of being right; it says how a row compares with its group. The thresholds are means of
    it, so an affine change of the predictions flags the same rows where one threshold alone is reached. Rows of groups
    with different rewards are judged, all of a batch together. There is no cap and no gate: of a probe that has learned
    nothing about half of the rows reach the other class' mean.

    `scores` are the probability that the reward is wrong; rows of groups of equal rewards have none. Needs `hidden`.
    """

    def declare(self) -> None:
        """What happens to flagged rows is a setting."""
        declare_strategy(self, self.config.strategy)

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        rows = canonical_rows(rollouts)
        values, judged, varies = self._predict(rollouts, rows)
        scores = torch.full((len(rollouts),), torch.nan, dtype=torch.float32)
        flagged = torch.zeros(len(rollouts), dtype=torch.bool)
        rewards = rollouts.rewards.double()[rows.order][judged]
        right = linear_probability(rewards, values[judged]) if len(rewards) else rewards
        flagged[judged], thresholds = confidently_wrong(rewards, right)
        scores[judged] = torch.where(rewards == 1, 1 - right, right).float()
        metrics = {
            "right_threshold": thresholds[0],
            "wrong_threshold": thresholds[1],
            "flagged_ones": float((flagged[judged] & (rewards == 1)).sum()),
        }
        flags = Flags.without_cap(flagged, judged, zero_spread=not varies)
        strategy = self.config.strategy
        return rectify(rollouts, rows, scores, flags, strategy=strategy, generator=generator, metrics=metrics)


def balanced(right: int, wrong: int, kept: int) -> tuple[int, int]:
    """How many right and how many wrong rows are kept of so many: as equal as there are rows for, right ones first."""
    few_wrong = min(wrong, kept // 2)
    some_right = min(right, kept - few_wrong)
    return some_right, min(wrong, kept - some_right)


def agreeing_rows(rewards: Float[Tensor, " n"], scores: Float[Tensor, " n"], kept: int) -> Int[Tensor, " k"]:
    """The `kept` rows of a group that the second score confirms, in ascending order.

    Of the right rows those of the highest scores are kept, of the wrong ones those of the lowest, in `balanced`
    numbers; of equal scores the earlier rows. A group with no more rows, or with one kind of rows only, stays whole.

    Args:
        rewards: [N] 0 or 1.
        scores: [N] the second score, higher for better rows.
    """
    ones = (rewards == 1).nonzero()[:, 0]
    zeros = (rewards == 0).nonzero()[:, 0]
    if len(rewards) <= kept or not len(ones) or not len(zeros):
        return torch.arange(len(rewards))
    kept_ones, kept_zeros = balanced(len(ones), len(zeros), kept)
    ones_by_score = ones[scores[ones].argsort(descending=True, stable=True)]
    zeros_by_score = zeros[scores[zeros].argsort(stable=True)]
    return torch.cat([ones_by_score[:kept_ones], zeros_by_score[:kept_zeros]]).sort().values


@settings
class ScoreAgreementConfig:
    type: ClassVar[str] = "score_agreement"

    m: Several | None = setting(default=None, help="Rollouts kept per group; null: half of them, at least two.")
    decay: PositiveShare = setting(default=0.9, help="Weight of a batch in the second fit, relative to the next.")


class ScoreAgreement(Predicting[ScoreAgreementConfig]):
    """Keeps the rows on which reward and a second score agree, as many right as wrong ones (PROF, arXiv 2509.03403).

    PROF ranks right and wrong responses apart by the mean of a process reward model over their steps, and leaves out
    the lowest of the right and the highest of the wrong ones, so many of each that their numbers are balanced. Here the
    second score is a prediction of the reward from hidden states by a ridge regression on earlier batches (on the first
    batch: by folds over its groups). Advantages are those of the rows kept. Groups of equal rewards stay whole, and so
    does the batch where nothing is predicted.
    """

    acts_on = ("rows",)
    drops_rows = True
    recomputes_advantages = True
    scores_rows = False

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        rows = canonical_rows(rollouts)
        values, _, varies = self._predict(rollouts, rows)
        scores = in_input_order(rows, values.device)(values)
        kept = []
        for group in groups_of(rollouts):
            count = len(group.rows)
            if varies:
                count = self.config.m or half_of_group(len(group.rows))
            kept.append(group.rows[agreeing_rows(group.rewards, scores[group.rows], count)])
        return subset(rollouts, kept, {"zero_spread": float(not varies)})
