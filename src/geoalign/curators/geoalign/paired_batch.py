"""A batch as GeoAlign scores it: sorted, centred, with the pairs of its rewards and what they say of themselves."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.method.consensus import prototype_weights, raw_cosines, raw_prototype
from geoalign.method.groups import GroupedRows, canonical_order
from geoalign.method.pairs import Pairs, centred_states, preference_pairs, with_distances
from geoalign.method.summaries import cosine_summary, score_summary
from geoalign.types import Rollouts


@dataclass(frozen=True, eq=False)
class PairedBatch:
    """A batch in sorted order, with its pairs and the raw prototype of their displacements.

    `contradictions` are the pairs of identical responses with different rewards.
    """

    rows: GroupedRows
    rewards: Float[Tensor, " b"]
    states: Float[Tensor, "b d"]
    length: Float[Tensor, " b"]
    keys: Int[Tensor, " b"] | None
    pairs: Pairs
    weights: Float[Tensor, " p"]
    contradictions: Pairs
    raw_prototype: Float[Tensor, " d"]
    raw_cosine: Float[Tensor, " p"]


def paired_batch(
    rollouts: Rollouts,
    hidden: Float[Tensor, "b d"],
    *,
    top_m: int | None,
    margin_weighted: bool,
    generator: torch.Generator | None,
) -> PairedBatch:
    """Sorts the batch, on the device of its states, and forms its pairs.

    Args:
        top_m: `GeoAlignConfig`; with it, `generator` draws among equal rewards.
        margin_weighted: whether a pair's reward margin weighs it in the prototype; else all weigh the same.
    """
    rewards, groups = rollouts.rewards.to(hidden.device), rollouts.groups.to(hidden.device)
    rows = canonical_order(rewards, groups, hidden)
    rewards = rewards[rows.order]
    pairs = preference_pairs(rewards, rows, top_m=top_m, generator=generator)
    states, length = centred_states(hidden, rows)
    keys = None if rollouts.response_keys is None else rollouts.response_keys.to(hidden.device)[rows.order]
    pairs, directed = directed_pairs(pairs, states, length, keys, rows)
    pairs, same = pairs.take(directed), pairs.take(~directed)
    weights = prototype_weights(pairs.margin, margin_weighted)
    prototype = raw_prototype(states, pairs, weights)
    cosine = raw_cosines(states, pairs, prototype)
    return PairedBatch(rows, rewards, states, length, keys, pairs, weights, same, prototype, cosine)


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
