"""Preference pairs inside each group, and their displacements (Eqs. 2 and 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.method.arithmetic import add_rows
from geoalign.method.groups import GroupedRows
from geoalign.method.ties import tied_rewards

# Displacements shorter than this share of the states' own length are rounding, not direction.
ZERO_DISPLACEMENT = 1e-6
# Rows are centred, and groups compared, in chunks of about this many numbers.
_CHUNK = 1 << 24


@dataclass(frozen=True, eq=False)
class Pairs:
    """P strictly ordered pairs, sorted by group; `winner` and `loser` are sorted positions (`GroupedRows`).

    Attributes:
        winner, loser: [P] positions of the better and the worse rollout.
        group: [P] dense group index, non-decreasing.
        margin: [P] reward of the winner minus reward of the loser, positive.
        distance: [P] length of the displacement between the centred states; NaN unless filled by `with_distances`.
    """

    winner: Int[Tensor, " p"]
    loser: Int[Tensor, " p"]
    group: Int[Tensor, " p"]
    margin: Float[Tensor, " p"]
    distance: Float[Tensor, " p"]

    def __len__(self) -> int:
        return len(self.winner)

    def take(self, index: Tensor | slice) -> Pairs:
        """The pairs named by an index, a mask or a slice."""
        return Pairs(
            winner=self.winner[index],
            loser=self.loser[index],
            group=self.group[index],
            margin=self.margin[index],
            distance=self.distance[index],
        )

    def blocks(self, size: int) -> Iterator[slice]:
        """Slices that cover all pairs, `size` at a time."""
        for start in range(0, len(self), size):
            yield slice(start, min(start + size, len(self)))


def centred_states(hidden: Float[Tensor, "b d"], rows: GroupedRows) -> tuple[Float[Tensor, "b d"], Float[Tensor, " b"]]:
    """Sorted states in float32, divided by the batch's largest entry and centred within their group.

    Differences inside a group do not feel the centring, and directions do not feel the scale; but without them a small
    displacement of large states drowns in rounding.

    Returns:
        [B, d] centred states in sorted order, and [B] the lengths of the scaled states before centring.
    """
    largest = hidden.abs().max() if hidden.numel() else hidden.new_ones(())
    largest = torch.where(largest > 0, largest, torch.ones_like(largest))
    states = torch.empty(hidden.shape, dtype=torch.float32, device=hidden.device)
    chunk = max(1, _CHUNK // max(1, hidden.shape[1]))
    # In float32 at least, so that the division rounds no more than the states themselves.
    precise = torch.promote_types(hidden.dtype, torch.float32)
    for start in range(0, len(hidden), chunk):
        part = hidden[rows.order[start : start + chunk]]
        states[start : start + chunk] = part.to(precise) / largest
    length = states.norm(dim=1)
    total = add_rows(states.new_zeros(len(rows.sizes), states.shape[1]), rows.group, states)
    mean = total / rows.sizes[:, None]
    for start in range(0, len(states), chunk):
        group = rows.group[start : start + chunk]
        states[start : start + chunk] -= mean[group]
    return states, length


def preference_pairs(rewards: Float[Tensor, " b"], rows: GroupedRows) -> Pairs:
    """All pairs (k, l) of one group with r_k > r_l (Eq. 3), of rewards in sorted order; NaN rewards form none.

    Rewards that differ by rounding only form none either (`geoalign.method.ties.tied_rewards`).
    """
    rewards = tied_rewards(rewards, rows.group)
    by_size = []
    for groups, size in _same_size_groups(rows):
        # Within a group rewards ascend, so a winner always stands right of its loser.
        low, high = torch.triu_indices(size, size, offset=1, device=rewards.device)
        first = rows.offsets[groups][:, None]
        loser = first + low
        winner = first + high
        strict = rewards[winner] > rewards[loser]
        group = groups[:, None].expand_as(strict)
        # [3, p] for the groups of this size.
        by_size.append(torch.stack([winner[strict], loser[strict], group[strict]]))
    winner, loser, group = torch.cat(by_size, dim=1) if by_size else rows.order.new_empty(3, 0)
    if len(by_size) > 1:
        by_group = group.argsort(stable=True)
        winner = winner[by_group]
        loser = loser[by_group]
        group = group[by_group]
    # Finite, so that margins can be compared: two rewards may be further apart than their dtype's largest number.
    margin = (rewards[winner] - rewards[loser]).clamp(max=torch.finfo(rewards.dtype).max)
    unknown = torch.full_like(margin, torch.nan)
    return Pairs(winner=winner, loser=loser, group=group, margin=margin, distance=unknown)


def with_distances(
    pairs: Pairs, states: Float[Tensor, "b d"], length: Float[Tensor, " b"], rows: GroupedRows
) -> tuple[Pairs, Bool[Tensor, " p"]]:
    """Fills the displacement lengths ||h_k - h_l|| (Eq. 2) and says which pairs have a direction at all.

    Lengths are taken group by group as differences, never through products, so identical states have length exactly
    zero; no tensor of pairs x d is made.

    Returns:
        The pairs with their distances, and [P] True where the displacement is not zero.
    """
    distance = torch.zeros(len(pairs), dtype=torch.float32, device=states.device)
    start_of = torch.searchsorted(pairs.group, torch.arange(len(rows.sizes) + 1, device=pairs.group.device))
    for groups, size in _same_size_groups(rows):
        paired = groups[start_of[groups + 1] > start_of[groups]]
        for some in paired.split(max(1, _CHUNK // (size * (states.shape[1] + size)))):
            index = rows.offsets[some][:, None] + torch.arange(size, device=states.device)
            table = torch.cdist(states[index], states[index], compute_mode="donot_use_mm_for_euclid_dist")
            which = group_ranges(start_of, some)
            local = torch.searchsorted(some, pairs.group[which])
            first = rows.offsets[pairs.group[which]]
            distance[which] = table[local, pairs.winner[which] - first, pairs.loser[which] - first]
    scale = torch.maximum(length[pairs.winner], length[pairs.loser])
    return replace(pairs, distance=distance), distance > ZERO_DISPLACEMENT * scale


def group_ranges(offsets: Int[Tensor, " g1"], groups: Int[Tensor, " n"]) -> Int[Tensor, " m"]:
    """The concatenated ranges offsets[g]..offsets[g + 1] of the groups named: their rows, or their pairs."""
    start = offsets[groups]
    size = offsets[groups + 1] - start
    ends = size.cumsum(0)
    total = int(ends[-1]) if len(ends) else 0
    shift = torch.repeat_interleave(start - (ends - size), size, output_size=total)
    return torch.arange(total, device=offsets.device) + shift


def _same_size_groups(rows: GroupedRows) -> Iterator[tuple[Tensor, int]]:
    """Groups bucketed by their size (two rows at least), so that each bucket is one dense computation."""
    for size in rows.sizes.unique().tolist():
        if size > 1:
            yield (rows.sizes == size).nonzero()[:, 0], size
