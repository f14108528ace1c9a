"""Scoring every pair by a consensus, trained on all groups or on the other folds' groups; and how such a consensus does
on groups that it was never trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.intervals import Interval, clustered_proportion, mean_of
from geoalign.method.arithmetic import add_rows
from geoalign.method.consensus import Consensus
from geoalign.method.distillation import Distilled
from geoalign.method.groups import GroupedRows
from geoalign.method.pairs import Pairs

# Accuracies and deviations that only describe a fit are taken over at most this many pairs.
JUDGED_PAIRS = 8192
# The paper's mark for an aligned direction (Fig. "Visualization of latent vectors").
ALIGNED = 0.8


class NewGroups(NamedTuple):
    """Orientation accuracy on new groups, groups taken as independent, and the mean deviation there.

    `counts` are [2, G] the pairs ordered rightly and all pairs of each group.
    """

    accuracy: Interval
    deviation: float
    counts: Float[Tensor, "2 g"]


class ScoredPairs(NamedTuple):
    """[P] cosine of each pair to its prototype, what training says of itself (NaN where undefined), and the `counts` of
    new groups."""

    cosine: Float[Tensor, " p"]
    metrics: dict[str, float]
    counts: Float[Tensor, "2 g"]


NO_GROUPS = torch.zeros(2, 0, dtype=torch.float64)
UNKNOWN = NewGroups(Interval(torch.nan, torch.nan, torch.nan), torch.nan, NO_GROUPS)


def score_in_sample(
    consensus: Consensus,
    earlier: Consensus,
    states: Float[Tensor, "b d"],
    rows: GroupedRows,
    pairs: Pairs,
    weights: Float[Tensor, " p"],
    generator: torch.Generator,
) -> ScoredPairs:
    """The paper's scoring: one consensus, trained on all groups and asked about the same groups.

    `earlier` (the same object where weights are kept) judges the batch before it is trained on it, so accuracy and
    deviation on new groups are honest; the gap compares that deviation with the one in its own training.
    """
    new = judge_new_groups(earlier, states, pairs, generator)
    before = earlier.train_deviation
    distilled = consensus.fit(states, rows.offsets, pairs, generator, scored=True)
    view = consensus.view(states)
    consensus.settle(view, pairs, weights)
    cosine = consensus.cosines(view, pairs)
    consensus.train_deviation = float((1 - cosine).mean())
    accuracy = float(consensus.orientation(states, every_nth(pairs)).mean())
    metrics = _metrics([distilled], [accuracy], consensus.train_deviation, new, new.deviation - before)
    return ScoredPairs(cosine, metrics, new.counts)


def score_cross_fit(
    folds: Sequence[Consensus],
    states: Float[Tensor, "b d"],
    rows: GroupedRows,
    pairs: Pairs,
    weights: Float[Tensor, " p"],
    generator: torch.Generator,
) -> ScoredPairs:
    """Cross-fitted scoring: each group is asked of a consensus of the other folds, projector and prototype.

    So every group is scored alike, and deviation and gap are those of groups never trained on. The accuracy on new
    groups is that of the first fold alone: two folds judge each other by nearly the same statistic (raw directions: the
    product of their prototypes), so both together would pass for twice the evidence that there is. Needs as many groups
    with pairs as there are folds.
    """
    fold = fold_of_groups(pairs, len(rows.sizes), len(folds), generator)[pairs.group]
    cosine, right = torch.empty_like(weights), torch.empty_like(weights)
    distilled, accuracies, deviations = [], [], []
    for number, consensus in enumerate(folds):
        held = fold == number
        training, asked = pairs.take(~held), pairs.take(held)
        distilled.append(consensus.fit(states, rows.offsets, training, generator, scored=False))
        view = consensus.view(states)
        consensus.settle(view, training, weights[~held])
        cosine[held] = consensus.cosines(view, asked)
        right[held] = consensus.orientation(states, asked)
        some = every_nth(training)
        consensus.train_deviation = float((1 - consensus.cosines(view, some)).mean())
        deviations.append(consensus.train_deviation)
        accuracies.append(float(consensus.orientation(states, some).mean()))
    counted = fold == 0
    new = summarise_new_groups(right[counted], cosine[counted], pairs.take(counted))
    new = new._replace(deviation=float((1 - cosine).mean()))
    train_deviation = mean_of(deviations)
    metrics = _metrics(distilled, accuracies, train_deviation, new, new.deviation - train_deviation)
    return ScoredPairs(cosine, metrics, new.counts)


def _metrics(
    distilled: Sequence[Distilled | None],
    accuracies: Sequence[float],
    train_deviation: float,
    new: NewGroups,
    gap: float,
) -> dict[str, float]:
    trained = [each for each in distilled if each is not None]
    return {
        "projector_steps": mean_of([float(each.steps) for each in trained]) if trained else 0.0,
        "projector_loss": mean_of([each.loss for each in trained]),
        "train_accuracy": mean_of(accuracies),
        "heldout_pair_accuracy": mean_of([each.heldout_accuracy for each in trained]),
        "train_deviation": train_deviation,
        **new.accuracy.named("new_group_accuracy"),
        "new_group_deviation": new.deviation,
        "deviation_gap": gap,
    }


def unscored(pairs: Pairs) -> ScoredPairs:
    """Of pairs that nothing could be trained on: all NaN."""
    metrics = dict.fromkeys(_metrics([], [], torch.nan, UNKNOWN, torch.nan), torch.nan)
    return ScoredPairs(torch.full_like(pairs.distance, torch.nan), metrics, NO_GROUPS)


def summarise_new_groups(right: Float[Tensor, " p"], cosine: Float[Tensor, " p"], pairs: Pairs) -> NewGroups:
    """Accuracy with its group-wise interval, and mean deviation, from how each pair was judged (at least one)."""
    _, member = pairs.group.unique_consecutive(return_inverse=True)
    groups = int(member[-1]) + 1
    per_group = add_rows(right.new_zeros(groups), member, right)
    counts = torch.stack([per_group, torch.bincount(member, minlength=groups).to(right.dtype)]).cpu()
    return NewGroups(clustered_proportion(*counts.numpy()), float((1 - cosine).mean()), counts.double())


def judge_new_groups(
    consensus: Consensus, states: Float[Tensor, "b d"], pairs: Pairs, generator: torch.Generator
) -> NewGroups:
    """Judges a consensus of an earlier batch on this one, before it is trained on it.

    Free of new rollouts, because prompts are new in every iteration. Whole groups are drawn until they hold about 8192
    pairs. NaN where the consensus was never trained.
    """
    if consensus.prototype is None:
        return UNKNOWN
    groups = pairs.group.unique_consecutive()
    wanted = max(1, len(groups) * JUDGED_PAIRS // len(pairs))
    if wanted < len(groups):
        drawn = torch.randperm(len(groups), generator=generator)[:wanted]
        chosen = torch.zeros(int(groups[-1]) + 1, dtype=torch.bool, device=groups.device)
        chosen[groups[drawn.to(groups.device)]] = True
        pairs = pairs.take(chosen[pairs.group])
    cosine = consensus.cosines(consensus.view(states), pairs)
    return summarise_new_groups(consensus.orientation(states, pairs), cosine, pairs)


def every_nth(pairs: Pairs, most: int = JUDGED_PAIRS) -> Pairs:
    """At most `most` pairs, evenly spread over all; draws nothing."""
    return pairs.take(slice(None, None, -(-len(pairs) // most))) if len(pairs) > most else pairs


def fold_of_groups(pairs: Pairs, groups: int, folds: int, generator: torch.Generator) -> Int[Tensor, " g"]:
    """A random fold for each group that has pairs, sizes even; -1 for the others."""
    paired = pairs.group.unique_consecutive()
    fold = torch.full((groups,), -1, device=paired.device)
    shuffled = torch.randperm(len(paired), generator=generator).to(paired.device)
    fold[paired[shuffled]] = torch.arange(len(paired), device=paired.device) % folds
    return fold


def cosine_summary(name: str, cosine: Float[Tensor, " p"]) -> dict[str, float]:
    """Mean cosine to the prototype, and the share of cosines above 0.8; NaN without pairs."""
    if not len(cosine):
        return {f"{name}_cosine_mean": torch.nan, f"{name}_cosine_share_080": torch.nan}
    return {
        f"{name}_cosine_mean": float(cosine.mean()),
        f"{name}_cosine_share_080": float((cosine > ALIGNED).float().mean()),
    }
