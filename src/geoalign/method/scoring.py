"""Scoring every pair by a consensus: trained on all groups, or on the other folds' groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.method.distillation import Distilled
from geoalign.method.generalisation import (
    UNKNOWN,
    NewGroups,
    every_nth,
    fold_of_groups,
    judge_new_groups,
    summarise_new_groups,
)
from geoalign.method.groups import GroupedRows
from geoalign.method.models import Consensus
from geoalign.method.pairs import Pairs
from geoalign.method.pooling import PairPool, WeighedPairs

# What training says of itself, NaN where undefined.
METRICS = (
    "projector_steps",
    "projector_loss",
    "train_accuracy",
    "heldout_pair_accuracy",
    "train_deviation",
    "new_group_accuracy",
    "new_group_accuracy_low",
    "new_group_accuracy_high",
    "new_group_deviation",
    "deviation_gap",
)


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """[P] cosine of each pair to its prototype, the metrics named in METRICS, how new groups were judged, and [G] the
    number of the consensus that each group was asked of (None: no group was)."""

    cosine: Float[Tensor, " p"]
    metrics: dict[str, float]
    new_groups: NewGroups = UNKNOWN
    fold: Int[Tensor, " g"] | None = None


def score_in_sample(
    consensus: Consensus,
    earlier: Consensus,
    states: Float[Tensor, "b d"],
    rows: GroupedRows,
    pairs: Pairs,
    weights: Float[Tensor, " p"],
    generator: torch.Generator | None,
    *,
    learnt: Bool[Tensor, " p"] | None = None,
    pool: PairPool | None = None,
) -> ScoredPairs:
    """The paper's scoring: one consensus, trained on all groups and asked about the same groups.

    `earlier` (the same object where weights are kept) judges the batch as it stands after the batch before, so accuracy
    and deviation on new groups are honest; the gap compares that deviation with the one in its own training.

    Args:
        learnt: the pairs that projector and prototype are made from; None: all. All are scored.
        pool: pairs of earlier batches that they are made from besides.
    """
    new = judge_new_groups(earlier, states, pairs, generator)
    before = earlier.train_deviation
    makers = (pairs, weights) if learnt is None else (pairs.take(learnt), weights[learnt])
    distilled, view = _made(consensus, WeighedPairs(states, rows.offsets, *makers), pool, generator, scored=True)
    cosine = consensus.cosines(view, pairs)
    consensus.train_deviation = float((1 - cosine).mean())
    accuracy = float(consensus.orientation(states, every_nth(pairs)).mean())
    metrics = _metrics([distilled], [accuracy], consensus.train_deviation, new, new.deviation - before)
    return ScoredPairs(cosine, metrics, new, torch.zeros_like(rows.sizes))


def score_cross_fit(
    folds: Sequence[Consensus],
    states: Float[Tensor, "b d"],
    rows: GroupedRows,
    pairs: Pairs,
    weights: Float[Tensor, " p"],
    generator: torch.Generator | None,
    *,
    learnt: Bool[Tensor, " p"] | None = None,
    pool: PairPool | None = None,
) -> ScoredPairs:
    """Cross-fitted scoring: each group is asked of a consensus of the other folds, projector and prototype.

    So every group is scored alike, and deviation and gap are those of groups never trained on. The accuracy on new
    groups is that of the first fold alone: two folds judge each other by nearly the same statistic (raw directions: the
    product of their prototypes), so both together would pass for twice the evidence that there is. Needs as many groups
    with pairs as there are folds.

    Args:
        learnt: the pairs that projectors and prototypes are made from; None: all. All are scored; groups without any
            such pair by the first consensus, which has not seen them either.
        pool: pairs of earlier batches, from which every projector and prototype is made besides.
    """
    makers = pairs if learnt is None else pairs.take(learnt)
    fold_of = fold_of_groups(makers, len(rows.sizes), len(folds), generator).clamp(min=0)
    fold = fold_of[pairs.group]
    cosine, right = torch.empty_like(weights), torch.empty_like(weights)
    distilled, accuracies, deviations = [], [], []
    for number, consensus in enumerate(folds):
        held = fold == number
        known = ~held if learnt is None else ~held & learnt
        training, asked = pairs.take(known), pairs.take(held)
        whole = WeighedPairs(states, rows.offsets, training, weights[known])
        trained, view = _made(consensus, whole, pool, generator, scored=False)
        distilled.append(trained)
        cosine[held] = consensus.cosines(view, asked)
        right[held] = consensus.orientation(states, asked)
        some = every_nth(training)
        consensus.train_deviation = float((1 - consensus.cosines(view, some)).mean())
        deviations.append(consensus.train_deviation)
        accuracies.append(float(consensus.orientation(states, some).mean()))
    counted = fold == 0
    new = replace(
        summarise_new_groups(right[counted], cosine[counted], pairs.take(counted)),
        deviation=float((1 - cosine).mean()),
    )
    train_deviation = _mean(deviations)
    metrics = _metrics(distilled, accuracies, train_deviation, new, new.deviation - train_deviation)
    return ScoredPairs(cosine, metrics, new, fold_of)


def _made(
    consensus: Consensus,
    makers: WeighedPairs,
    pool: PairPool | None,
    generator: torch.Generator | None,
    *,
    scored: bool,
) -> tuple[Distilled | None, Float[Tensor, "b h"]]:
    """Trains the consensus on these pairs and the pool's, sets its prototype, and returns its view of these rows."""
    rows = len(makers.states)
    whole = makers if pool is None else pool.joined_with(makers)
    distilled = consensus.fit(whole.states, whole.offsets, whole.pairs, generator, scored=scored)
    view = consensus.view(whole.states)
    consensus.settle(view, whole.pairs, whole.weights)
    return distilled, view[len(view) - rows :]


def _metrics(
    distilled: Sequence[Distilled | None],
    accuracies: Sequence[float],
    train_deviation: float,
    new: NewGroups,
    gap: float,
) -> dict[str, float]:
    trained = [each for each in distilled if each is not None]
    values = (
        _mean([float(each.steps) for each in trained]) if trained else 0.0,
        _mean([each.loss for each in trained]),
        _mean(accuracies),
        _mean([each.heldout_accuracy for each in trained]),
        train_deviation,
        new.accuracy.estimate,
        new.accuracy.low,
        new.accuracy.high,
        new.deviation,
        gap,
    )
    return dict(zip(METRICS, values, strict=True))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else torch.nan
