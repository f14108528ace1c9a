"""A batch seen group by group, and the curations that most baselines return."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.curators.base import Curator, identity, reward_weights
from geoalign.errors import InputError
from geoalign.method.groups import GroupedRows, canonical_order
from geoalign.types import Curation, Rollouts


@dataclass(frozen=True, eq=False)
class Group:
    """The rollouts of one prompt that have a reward, on the CPU.

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


_Config = TypeVar("_Config")


class Baseline(Curator[_Config]):
    """A curator that is handed what it requires, binary rewards where it takes no others; unscored rows are counted."""

    binary: ClassVar[bool] = False

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Checks the batch, and decides; `details` has no effect."""
        rollouts.require(*self.requires, by=type(self).__name__)
        if self.binary:
            require_binary(rollouts, by=type(self).__name__)
        curation = self._curate(rollouts, generator)
        return curation.with_metrics(unscored_rewards=float(rollouts.rewards.isnan().sum()))

    @abstractmethod
    def _curate(self, rollouts: Rollouts, generator: torch.Generator | None) -> Curation:
        """The curation of a batch that has what is required."""


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
    """The rows sorted by group, then reward, then `tie_order`; on the device of the rewards."""
    first = tie_order(rollouts).to(rollouts.rewards.device)
    rows = canonical_order(rollouts.rewards[first], rollouts.groups.to(first.device)[first])
    return GroupedRows(order=first[rows.order], group=rows.group, offsets=rows.offsets)


def rows_by_group(groups: Int[Tensor, " b"]) -> tuple[Tensor, ...]:
    """The rows of each group, by ascending id, on the CPU; within a group as they came."""
    groups = groups.cpu()
    order = groups.argsort(stable=True)
    sizes = groups[order].unique_consecutive(return_counts=True)[1]
    return order.split(sizes.tolist())


def groups_of(rollouts: Rollouts) -> list[Group]:
    """The groups by ascending id, rows by ascending reward; a group without any reward has no rows."""
    rows = canonical_rows(rollouts)
    order, names, rewards = rows.order.cpu(), rollouts.groups.cpu(), rollouts.rewards.cpu()
    groups = []
    for members in order.split(rows.sizes.tolist()):
        scored = members[~rewards[members].isnan()]
        groups.append(Group(int(names[members[0]]), scored, rewards[scored], len(members)))
    return groups


def require_binary(rollouts: Rollouts, *, by: str) -> None:
    """Raises InputError unless every reward is 0, 1 or NaN; `by` names the curator that takes no others."""
    rewards = rollouts.rewards
    other = ~rewards.isnan() & (rewards != 0) & (rewards != 1)
    if bool(other.any()):
        row = int(other.nonzero()[0])
        raise InputError(f"{by}: expected binary rewards (0 or 1), got {float(rewards[row])} in row {row}")


def subset(
    rollouts: Rollouts,
    kept: Sequence[Tensor],
    metrics: dict[str, float],
    *,
    advantages: Float[Tensor, " b"] | None = None,
) -> Curation:
    """The curation that keeps the rows named, none twice, group after group, and leaves the others out.

    Rows without a reward are left out too. Where every row of the batch is kept it comes back as it was.

    Args:
        kept: row indices, a tensor for each group.
        advantages: [B] advantages of the input rows that the kept rows bring with them; None: engines compute them
            from the kept rows.
    """
    device = rollouts.rewards.device
    source = torch.cat([*kept, torch.zeros(0, dtype=torch.long)])
    if len(source) == len(rollouts):
        source = torch.arange(len(rollouts))
    source = source.to(device)
    return Curation(
        source=source,
        rewards=rollouts.rewards[source],
        weights=reward_weights(rollouts.rewards[source]),
        advantages=None if advantages is None else advantages.to(device)[source],
        scores=torch.full((len(rollouts),), torch.nan, device=device),
        anomalous=torch.zeros(len(rollouts), dtype=torch.bool, device=device),
        metrics={
            **metrics,
            "kept_rows": float(len(source)),
            "left_out_rows": float(len(rollouts) - len(source)),
            "unscored_rewards": float(rollouts.rewards.isnan().sum()),
        },
    )


def reweighted(rollouts: Rollouts, weights: Float[Tensor, " b"], metrics: dict[str, float]) -> Curation:
    """The curation that keeps every row and multiplies its advantage by `weights` [B]; 0 where the reward is NaN."""
    base = identity(rollouts)
    return Curation(
        source=base.source,
        rewards=base.rewards,
        weights=base.weights * weights.to(base.weights),
        scores=base.scores,
        anomalous=base.anomalous,
        metrics={**metrics, "unscored_rewards": float(rollouts.rewards.isnan().sum())},
    )


def half(size: int) -> int:
    """Half of a group, but at least two rows (one has no variance), and never more than there are."""
    return min(size, max(2, size // 2))


def mean_of(values: Sequence[float]) -> float:
    """The mean, NaN without values."""
    return sum(values) / len(values) if values else torch.nan
