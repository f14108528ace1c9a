"""The pairs of a batch, each scored by a consensus that is trained on all groups or on the other fold's groups.

Here stands also how such a consensus does on groups that it was never trained on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.intervals import Interval, clustered_proportion, mean_of
from geoalign.method.arithmetic import add_rows
from geoalign.method.consensus import Consensus, prototype_weights, raw_cosines, raw_prototype
from geoalign.method.distillation import Distilled
from geoalign.method.groups import GroupedRows, canonical_order
from geoalign.method.pairs import Pairs, centred_states, preference_pairs, with_distances
from geoalign.types import Rollouts

# Accuracies and deviations that only describe a fit are taken over at most this many pairs.
JUDGED_PAIRS = 8192
# The paper's mark for an aligned direction (Fig. "Visualization of latent vectors").
ALIGNED = 0.8
# Number of folds of groups in cross-fitting.
CROSS_FIT_FOLDS = 2


@dataclass(frozen=True, eq=False)
class PairedBatch:
    """A batch in sorted order, on the device of its states, with its pairs.

    Attributes:
        rows: the canonical order.
        rewards: [B] r, in sorted order.
        states: [B, d] h, centred within the groups.
        pairs: the P pairs that have a direction (Eqs. 2 and 3).
        weights: [P] of the pairs in the prototype (Eq. 5).
        identical: how many pairs were left out because their responses, or the states of these, are the same.
        raw_cosine: [P] of the pairs' unit displacements to the prototype of these, before any projection.
    """

    rows: GroupedRows
    rewards: Float[Tensor, " b"]
    states: Float[Tensor, "b d"]
    pairs: Pairs
    weights: Float[Tensor, " p"]
    identical: int
    raw_cosine: Float[Tensor, " p"]

    @property
    def paired_groups(self) -> int:
        """How many groups have a pair."""
        return len(self.pairs.group.unique_consecutive())


def paired_batch(rollouts: Rollouts, hidden: Float[Tensor, "b d"]) -> PairedBatch:
    """Sorts the batch and forms its pairs; rows with one response key have no direction between them."""
    rewards = rollouts.rewards.to(hidden.device)
    rows = canonical_order(rewards, rollouts.groups.to(hidden.device), hidden)
    rewards = rewards[rows.order]
    states, length = centred_states(hidden, rows)
    every, directed = with_distances(preference_pairs(rewards, rows), states, length, rows)
    if rollouts.response_keys is not None:
        # Padding leaves the states of one response apart by rounding, which is no direction.
        keys = rollouts.response_keys.to(hidden.device)[rows.order]
        directed = directed & (keys[every.winner] != keys[every.loser])
    pairs = every.take(directed)
    weights = prototype_weights(pairs.margin)
    return PairedBatch(
        rows=rows,
        rewards=rewards,
        states=states,
        pairs=pairs,
        weights=weights,
        identical=len(every) - len(pairs),
        raw_cosine=raw_cosines(states, pairs, raw_prototype(states, pairs, weights)),
    )


@dataclass(frozen=True, eq=False)
class NewGroups:
    """How a consensus does on G groups that it was never trained on.

    Attributes:
        accuracy: of the orientation of their pairs, with an interval that takes groups as independent.
        deviation: the mean deviation of their pairs.
        counts: [2, G] the pairs of each group that were ordered rightly, and all of its pairs.
    """

    accuracy: Interval
    deviation: float
    counts: Float[Tensor, "2 g"]


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """What scoring a batch gives.

    Attributes:
        cosine: [P] of each pair to its prototype, 1 - s of Eq. 6.
        metrics: what training and new groups say; NaN where undefined.
        counts: those of `NewGroups`.
    """

    cosine: Float[Tensor, " p"]
    metrics: dict[str, float]
    counts: Float[Tensor, "2 g"]


NO_GROUPS = torch.zeros(2, 0, dtype=torch.float64)
UNKNOWN = NewGroups(Interval(torch.nan, torch.nan, torch.nan), torch.nan, NO_GROUPS)


def score_in_sample(
    consensus: Consensus, earlier: Consensus, batch: PairedBatch, generator: torch.Generator
) -> ScoredPairs:
    """The paper's scoring: one consensus, trained on all groups and asked about the same groups.

    `earlier` (the same object where weights are kept) judges the batch before it is trained on it, so accuracy and
    deviation on new groups are honest; the gap compares that deviation with the one in its own training.
    """
    new = judge_new_groups(earlier, batch.states, batch.pairs, generator)
    earlier_deviation = earlier.train_deviation
    distilled = consensus.fit(batch.states, batch.rows.offsets, batch.pairs, generator)
    on_rollouts = consensus.on_rollouts(batch.states)
    consensus.set_prototype(on_rollouts, batch.pairs, batch.weights)
    cosine = consensus.cosines(on_rollouts, batch.pairs)
    consensus.train_deviation = float((1 - cosine).mean())
    accuracy = float(consensus.orientation(batch.states, every_nth(batch.pairs)).mean())
    gap = new.deviation - earlier_deviation
    metrics = _metrics([distilled], [accuracy], consensus.train_deviation, new, gap)
    return ScoredPairs(cosine, metrics, new.counts)


def score_cross_fit(folds: Sequence[Consensus], batch: PairedBatch, generator: torch.Generator) -> ScoredPairs:
    """Cross-fitted scoring: each group is asked of a consensus of the other folds, projector and prototype.

    So every group is scored alike, and deviation and gap are those of groups never trained on. The accuracy on new
    groups is that of the first fold alone: two folds judge each other by nearly the same statistic (raw directions: the
    product of their prototypes), so pooling both would double-count the evidence. Needs as many groups with pairs as
    there are folds.
    """
    states = batch.states
    pairs = batch.pairs
    fold = fold_of_groups(pairs, len(batch.rows.sizes), len(folds), generator)[pairs.group]
    cosine = torch.empty_like(batch.weights)
    right = torch.empty_like(batch.weights)
    distilled, accuracies, deviations = [], [], []
    for number, consensus in enumerate(folds):
        held_out = fold == number
        training = pairs.take(~held_out)
        asked = pairs.take(held_out)
        distilled.append(consensus.fit(states, batch.rows.offsets, training, generator))
        on_rollouts = consensus.on_rollouts(states)
        consensus.set_prototype(on_rollouts, training, batch.weights[~held_out])
        cosine[held_out] = consensus.cosines(on_rollouts, asked)
        right[held_out] = consensus.orientation(states, asked)
        some = every_nth(training)
        consensus.train_deviation = float((1 - consensus.cosines(on_rollouts, some)).mean())
        deviations.append(consensus.train_deviation)
        accuracies.append(float(consensus.orientation(states, some).mean()))
    first = fold == 0
    of_first = summarise_new_groups(right[first], cosine[first], pairs.take(first))
    new = replace(of_first, deviation=float((1 - cosine).mean()))
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
    """What is logged of a scoring: its trainings (None where there was none), and how it does on new groups."""
    trained = [each for each in distilled if each is not None]
    return {
        "projector_steps": mean_of([float(each.steps) for each in trained]) if trained else 0.0,
        "projector_loss": mean_of([each.loss for each in trained]),
        "train_accuracy": mean_of(accuracies),
        "heldout_pair_accuracy": mean_of([each.heldout_accuracy for each in trained]),
        "train_deviation": train_deviation,
        **new.accuracy.as_metrics("new_group_accuracy"),
        "new_group_deviation": new.deviation,
        "deviation_gap": gap,
    }


def unscored(pairs: Pairs) -> ScoredPairs:
    """The scoring of pairs on which nothing could be trained: cosines and metrics are NaN."""
    metrics = dict.fromkeys(_metrics([], [], torch.nan, UNKNOWN, torch.nan), torch.nan)
    return ScoredPairs(torch.full_like(pairs.distance, torch.nan), metrics, NO_GROUPS)


def summarise_new_groups(right: Float[Tensor, " p"], cosine: Float[Tensor, " p"], pairs: Pairs) -> NewGroups:
    """Accuracy with its group-wise interval, and mean deviation, from how each pair was judged (at least one)."""
    _, member = pairs.group.unique_consecutive(return_inverse=True)
    groups = int(member[-1]) + 1
    right_of_group = add_rows(right.new_zeros(groups), member, right)
    pairs_of_group = torch.bincount(member, minlength=groups).to(right.dtype)
    counts = torch.stack([right_of_group, pairs_of_group]).cpu()
    return NewGroups(
        accuracy=clustered_proportion(*counts.numpy()),
        deviation=float((1 - cosine).mean()),
        counts=counts.double(),
    )


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
    cosine = consensus.cosines(consensus.on_rollouts(states), pairs)
    return summarise_new_groups(consensus.orientation(states, pairs), cosine, pairs)


def every_nth(pairs: Pairs, most: int = JUDGED_PAIRS) -> Pairs:
    """At most `most` pairs, evenly spread over all; draws nothing."""
    if len(pairs) <= most:
        return pairs
    every = math.ceil(len(pairs) / most)
    return pairs.take(slice(None, None, every))


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
