"""A batch as GeoAlign scores it: sorted, centred, with the pairs of its rewards and what they say of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.method.alignment import all_pairs
from geoalign.method.consensus import prototype_weights, rank_margins, raw_cosines, raw_prototype
from geoalign.method.error_rate import error_rate
from geoalign.method.groups import GroupedRows, canonical_order
from geoalign.method.pairs import Pairs, centred_states, interior_pairs, preference_pairs, with_distances
from geoalign.method.pooling import WeighedPairs
from geoalign.method.summaries import cosine_summary, score_summary
from geoalign.types import Rollouts

Margins = Literal["rewards", "ranks"]


@dataclass(frozen=True, eq=False)
class PairedBatch:
    """A batch in sorted order, with its pairs and the raw prototype of their displacements.

    `contradictions` are the pairs of identical responses with different rewards, `learnt` the pairs that the consensus
    is made from (None: all).
    """

    rows: GroupedRows
    rewards: Float[Tensor, " b"]
    states: Float[Tensor, "b d"]
    length: Float[Tensor, " b"]
    keys: Int[Tensor, " b"] | None
    pairs: Pairs
    weights: Float[Tensor, " p"]
    contradictions: Pairs
    learnt: Bool[Tensor, " p"] | None
    raw_prototype: Float[Tensor, " d"]
    raw_cosine: Float[Tensor, " p"]

    @property
    def makers(self) -> WeighedPairs:
        """The pairs that the consensus is made from."""
        if self.learnt is None:
            return WeighedPairs(self.states, self.rows.offsets, self.pairs, self.weights)
        return WeighedPairs(self.states, self.rows.offsets, self.pairs.take(self.learnt), self.weights[self.learnt])


def paired_batch(
    rollouts: Rollouts,
    hidden: Float[Tensor, "b d"],
    *,
    top_m: int | None,
    trim: int,
    margins: Margins | None,
    generator: torch.Generator | None,
) -> PairedBatch:
    """Sorts the batch, on the device of its states, and forms its pairs.

    Args:
        top_m, trim: `GeoAlignConfig`.
        margins: what weighs a pair in the prototype; None: all weigh the same.
        generator: of the draws among equal rewards, where `top_m` or `trim` is set.
    """
    rewards, groups = rollouts.rewards.to(hidden.device), rollouts.groups.to(hidden.device)
    rows = canonical_order(rewards, groups, hidden)
    rewards = rewards[rows.order]
    pairs = preference_pairs(rewards, rows, top_m=top_m, generator=generator)
    states, length = centred_states(hidden, rows)
    keys = None if rollouts.response_keys is None else rollouts.response_keys.to(hidden.device)[rows.order]
    pairs, directed = directed_pairs(pairs, states, length, keys, rows)
    pairs, same = pairs.take(directed), pairs.take(~directed)
    gaps = rank_margins(pairs, rewards, rows.group) if margins == "ranks" else pairs.margin
    weights = prototype_weights(gaps, margins is not None)
    learnt = interior_pairs(pairs, rewards, rows, trim, generator) if trim else None
    makers, their_weights = (pairs, weights) if learnt is None else (pairs.take(learnt), weights[learnt])
    prototype = raw_prototype(states, makers, their_weights)
    cosine = raw_cosines(states, pairs, prototype)
    return PairedBatch(rows, rewards, states, length, keys, pairs, weights, same, learnt, prototype, cosine)


def directed_pairs(
    pairs: Pairs,
    states: Float[Tensor, "b d"],
    length: Float[Tensor, " b"],
    keys: Int[Tensor, " b"] | None,
    rows: GroupedRows,
) -> tuple[Pairs, Bool[Tensor, " p"]]:
    """The pairs with their distances, and [P] True where there is a direction between two responses."""
    pairs, directed = with_distances(pairs, states, length, rows)
    if keys is not None:
        # Padding leaves the states of one response apart by rounding, which is no direction.
        directed = directed & (keys[pairs.winner] != keys[pairs.loser])
    return pairs, directed


def share_of_wrong_rewards(batch: PairedBatch) -> float:
    """The `error_rate` by the pairs of identical responses; NaN without any."""
    rewards = batch.rewards
    every, directed = directed_pairs(all_pairs(rewards, batch.rows), batch.states, batch.length, batch.keys, batch.rows)
    same = every.take(~directed)
    differing = int((rewards[same.winner] != rewards[same.loser]).sum())
    binary = len(rewards[~rewards.isnan()].unique()) <= 2
    return error_rate(differing, len(same), binary=binary)


def batch_metrics(batch: PairedBatch, scores: Float[Tensor, " b"]) -> dict[str, float]:
    """Counts of rows, groups and pairs, and summaries of the raw cosines and of the scores."""
    pairs, sizes = batch.pairs, batch.rows.sizes
    scored = batch.rows.group.new_zeros(len(sizes)).index_add(0, batch.rows.group, (~batch.rewards.isnan()).long())
    paired = len(pairs.group.unique_consecutive())
    return {
        "pairs": float(len(pairs)),
        "scored_groups": float(paired),
        "scored_rollouts": float((~scores.isnan()).sum()),
        "zero_displacements": float(len(batch.contradictions)),
        "unscored_rewards": float(batch.rewards.isnan().sum()),
        "single_groups": float((sizes == 1).sum()),
        "tied_groups": float((scored > 1).sum() - paired),
        "chance_accuracy": 0.5,
        **cosine_summary("raw", batch.raw_cosine),
        **score_summary(scores[~scores.isnan()]),
    }
