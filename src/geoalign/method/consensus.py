"""The prototype of the pair directions, each pair's deviation from it, and each rollout's GDI (Eqs. 5 to 7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from geoalign.method.distillation import block_of
from geoalign.method.pairs import Pairs
from geoalign.method.projector import Projector, displacement


def prototype_weights(margins: Float[Tensor, " p"], margin_weighted: bool) -> Float[Tensor, " p"]:
    """Each pair's weight in the prototype: its margin (Eq. 5), relative to the largest, or 1."""
    if not margin_weighted or not len(margins):
        return torch.ones(len(margins), device=margins.device)
    return (margins / margins.max()).float()


def rank_margins(pairs: Pairs, rewards: Float[Tensor, " b"], group: Int[Tensor, " b"]) -> Float[Tensor, " p"]:
    """F(winner) - F(loser), F(i) = (#{j: r_j < r_i} + #{j: r_j = r_i} / 2) / n over the n scored rows of the group.

    The margins of rewards that are ranked in their group, ties at their mean rank: an extreme reward counts for no more
    than its place. Between 1/n and 1 - 1/n; of binary rewards always 1/2.

    Args:
        rewards: sorted within groups, NaN last (`GroupedRows`); `group`: dense indices of the sorted rows.
    """
    scored = ~rewards.isnan()
    first = torch.ones_like(scored)
    first[1:] = (rewards[1:] != rewards[:-1]) | (group[1:] != group[:-1])
    # A tie is a run of equal rewards in one group: its place is the middle of the run.
    run = first.cumsum(0) - 1
    place = first.nonzero()[:, 0] + (torch.bincount(run) - 1) / 2
    size = torch.bincount(group[scored], minlength=len(place))
    return (place[run[pairs.winner]] - place[run[pairs.loser]]) / size[pairs.group]


@torch.no_grad()
def projected_prototype(
    projector: Projector, on_rollouts: Float[Tensor, "b h"], pairs: Pairs, weights: Float[Tensor, " p"]
) -> Float[Tensor, " o"]:
    """norm(sum of weight * v) with v = norm(M(u)) (Eq. 5); zero where the directions cancel exactly."""
    total = torch.zeros(projector.output_dim, device=on_rollouts.device)
    for block, directions in _directions(projector, on_rollouts, pairs):
        total += weights[block] @ directions
    return functional.normalize(total, dim=0)


@torch.no_grad()
def projected_cosines(
    projector: Projector, on_rollouts: Float[Tensor, "b h"], pairs: Pairs, prototype: Float[Tensor, " o"]
) -> Float[Tensor, " p"]:
    """<v, prototype> of every pair, block by block."""
    cosines = torch.empty(len(pairs), device=on_rollouts.device)
    for block, directions in _directions(projector, on_rollouts, pairs):
        cosines[block] = directions @ prototype
    return cosines.clamp_(-1, 1)


def raw_prototype(states: Float[Tensor, "b d"], pairs: Pairs, weights: Float[Tensor, " p"]) -> Float[Tensor, " d"]:
    """Eq. 5 on the unit displacements themselves: a weighted sum of pairs is a weighted sum of rollouts."""
    share = weights / pairs.distance
    factor = states.new_zeros(len(states))
    factor.index_add_(0, pairs.winner, share).index_add_(0, pairs.loser, share, alpha=-1)
    return functional.normalize(factor @ states, dim=0)


def raw_cosines(states: Float[Tensor, "b d"], pairs: Pairs, prototype: Float[Tensor, " d"]) -> Float[Tensor, " p"]:
    """<u, prototype> of every pair."""
    along = states @ prototype
    return ((along[pairs.winner] - along[pairs.loser]) / pairs.distance).clamp(-1, 1)


def deviation_index(
    deviation: Float[Tensor, " p"], pairs: Pairs, rows: int, *, aggregation: Literal["sum", "mean", "excess"]
) -> Float[Tensor, " b"]:
    """GDI: what the deviations s of a rollout's pairs come to; NaN for a rollout in no pair.

    "sum" is Eq. 7, "mean" the paper's ablation. "excess" is the sum of s minus the batch's mean deviation: Eq. 7 less
    what the number of pairs alone would give, so that being in the minority of a group is no suspicion by itself.
    """
    if aggregation == "excess" and len(pairs):
        deviation = deviation - deviation.mean()
    total = torch.zeros(rows, dtype=torch.float32, device=deviation.device)
    total.index_add_(0, pairs.winner, deviation).index_add_(0, pairs.loser, deviation)
    count = pair_count(pairs, rows)
    if aggregation == "mean":
        total = total / count.clamp(min=1)
    return total.masked_fill(count == 0, torch.nan)


def pair_count(pairs: Pairs, rows: int) -> Float[Tensor, " b"]:
    """How many pairs each rollout is in."""
    return torch.bincount(torch.cat([pairs.winner, pairs.loser]), minlength=rows).float()


def _directions(projector: Projector, on_rollouts: Tensor, pairs: Pairs) -> Iterator[tuple[slice, Tensor]]:
    """v = norm(M(u)), [block, d'], one block of pairs after another."""
    for block in pairs.blocks(block_of(on_rollouts.device)):
        output = projector.output(projector.features(displacement(on_rollouts, pairs.take(block))))
        yield block, functional.normalize(output, dim=1)
