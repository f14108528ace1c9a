"""A batch seen group by group, and the curations that most baselines return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.curators.base import identity
from geoalign.method.groups import GroupedRows, canonical_order
from geoalign.types import Curation, Rollouts


@dataclass(frozen=True, eq=False)
class Group:
    """The rollouts of one prompt that have a reward.

    Attributes:
        name: the group's id in `Rollouts.groups`.
        rows: [n] rows of the batch by ascending reward, those of equal reward in `tie_order`.
        rewards: [n] their rewards, none of them NaN.
        size: rows of the group, those without a reward included.
    """

    name: int
    rows: Int[Tensor, " n"]
    rewards: Float[Tensor, " n"]
    size: int

    @property
    def varies(self) -> bool:
        """Whether two of its rewards differ."""
        return len(self.rows) > 1 and bool(self.rewards[0] != self.rewards[-1])


def tie_order(rollouts: Rollouts) -> Int[Tensor, " b"]:
    """The order in which rows of equal reward are told apart, on the CPU.

    By `ids` where they are given (shorter ones first, so that "2" stands before "10"), otherwise by the sum of the
    hidden state, otherwise by their place in the batch.
    """
    if rollouts.ids is not None:
        names = rollouts.ids
        return torch.tensor(sorted(range(len(names)), key=lambda row: (len(names[row]), names[row])), dtype=torch.long)
    if rollouts.hidden is not None:
        widest = torch.float32 if rollouts.hidden.device.type == "mps" else torch.float64
        return rollouts.hidden.sum(dim=1, dtype=widest).cpu().argsort(stable=True)
    return torch.arange(len(rollouts))


def canonical_rows(rollouts: Rollouts) -> GroupedRows:
    """The rows of a batch on the CPU sorted by group, then reward, then `tie_order`."""
    first = tie_order(rollouts)
    rows = canonical_order(rollouts.rewards[first], rollouts.groups[first])
    return GroupedRows(order=first[rows.order], group=rows.group, offsets=rows.offsets)


def rows_by_group(groups: Int[Tensor, " b"]) -> tuple[Tensor, ...]:
    """The rows of each group, by ascending id; within a group as they came."""
    order = groups.argsort(stable=True)
    sizes = groups[order].unique_consecutive(return_counts=True)[1]
    return order.split(sizes.tolist())


def groups_of(rollouts: Rollouts) -> list[Group]:
    """The groups by ascending id, rows by ascending reward; a group without any reward has no rows."""
    rows, rewards = canonical_rows(rollouts), rollouts.rewards
    groups = []
    for members in rows.order.split(rows.sizes.tolist()):
        scored = members[~rewards[members].isnan()]
        groups.append(Group(int(rollouts.groups[members[0]]), scored, rewards[scored], len(members)))
    return groups


def subset(
    rollouts: Rollouts,
    kept: Sequence[Tensor],
    metrics: dict[str, float],
    *,
    advantages: Float[Tensor, " b"] | None = None,
) -> Curation:
    """The curation that keeps the rows named, none twice, group after group, and leaves the others out.

    Where every row of the batch is kept it comes back as it was.

    Args:
        kept: row indices, a tensor for each group.
        advantages: [B] advantages of the input rows that the kept rows bring with them; None: engines compute them
            from the kept rows.
    """
    source = torch.cat([*kept, torch.zeros(0, dtype=torch.long)])
    if len(source) == len(rollouts):
        source = torch.arange(len(rollouts))
    counts = {"kept_rows": float(len(source)), "left_out_rows": float(len(rollouts) - len(source))}
    taken = taking(rollouts, source, {**metrics, **counts})
    return taken if advantages is None else replace(taken, advantages=advantages[source])


def taking(rollouts: Rollouts, source: Int[Tensor, " c"], metrics: dict[str, float]) -> Curation:
    """The curation that takes these rows, in this order."""
    unchanged = identity(rollouts, metrics)
    return replace(unchanged, source=source, rewards=unchanged.rewards[source], weights=unchanged.weights[source])


def reweighted(rollouts: Rollouts, weights: Float[Tensor, " b"], metrics: dict[str, float]) -> Curation:
    """The curation that keeps every row and multiplies its advantage by `weights` [B]; 0 where the reward is NaN."""
    unchanged = identity(rollouts, metrics)
    return replace(unchanged, weights=unchanged.weights * weights)


def half(size: int) -> int:
    """Half of a group, but at least two rows (one has no variance), and never more than there are."""
    return min(size, max(2, size // 2))
