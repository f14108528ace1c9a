"""What the baselines share: rows in canonical order, groups, subsets and weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from geoalign.curators.curator import Curator, _Config, hidden_states, identity, tie_order
from geoalign.curators.precision import full_precision
from geoalign.errors import InputError
from geoalign.method.groups import GroupedRows, canonical_order
from geoalign.method.ties import tied_rewards
from geoalign.types import Curation, Rollouts

_Held = TypeVar("_Held", Rollouts, Curation)


class Baseline(Curator[_Config]):
    """A curator whose batch is checked before it decides.

    `_curate` gets a batch of at least one row with all that `requires` names, on the CPU and in full precision; with
    `on_device` the batch stays where it is. Unscored rows are counted.

    Raises:
        InputError: a field that it requires is missing, states have fewer than two columns, or a reward of a curator
            for binary rewards is neither 0 nor 1 (nor NaN).
    """

    on_device: ClassVar[bool] = False

    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        """Checks the batch, and decides; `details` has no effect."""
        rollouts.require(*self.requires, by=type(self).__name__)
        if "hidden" in self.requires:
            hidden_states(rollouts, by=type(self).__name__)
        unscored = rollouts.rewards.isnan()
        not_binary = ~unscored & (rollouts.rewards != 0) & (rollouts.rewards != 1)
        if self.binary_rewards and bool(not_binary.any()):
            row = int(not_binary.nonzero()[0])
            raise InputError(
                f"{type(self).__name__}: expected binary rewards (0 or 1), got {float(rollouts.rewards[row])} "
                f"in row {row}"
            )
        if not len(rollouts):
            return identity(rollouts)
        given = rollouts if self.on_device else to_device(rollouts, "cpu")
        with full_precision(given):
            curation = self._curate(given, self.drawing_from(generator))
        return to_device(curation, rollouts.rewards.device).with_metrics(unscored_rewards=float(unscored.sum()))

    @abstractmethod
    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        """The curation of a batch that has what is required."""


def to_device(held: _Held, device: torch.device | str) -> _Held:
    """The same batch, or curation, with all of its tensors on a device."""
    tensors: dict[str, Any] = {}
    for item in fields(held):
        value = getattr(held, item.name)
        if isinstance(value, Tensor):
            tensors[item.name] = value.to(device)
    return replace(held, **tensors)


@dataclass(frozen=True, eq=False)
class Group:
    """The rollouts of one prompt that have a reward.

    Attributes:
        name: the group's id in `Rollouts.groups`.
        rows: [n] rows of the batch by ascending reward, those of equal reward in `tie_order`.
        rewards: [n] their rewards, none of them NaN; equal where they differ by rounding only (`tied_rewards`).
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
    rows = canonical_rows(rollouts)
    rewards = tied_rewards(rollouts.rewards, rollouts.groups)
    groups = []
    for members in rows.order.split(rows.sizes.tolist()):
        scored = members[~rewards[members].isnan()]
        group = Group(
            name=int(rollouts.groups[members[0]]),
            rows=scored,
            rewards=rewards[scored],
            size=len(members),
        )
        groups.append(group)
    return groups


def subset(
    rollouts: Rollouts,
    kept: Sequence[Tensor],
    metrics: dict[str, float],
    *,
    advantages: Float[Tensor, " b"] | None = None,
) -> Curation:
    """The curation that keeps the rows in `kept`, each once and group by group, and leaves the others out.

    If every row is kept, the batch is returned unchanged.

    Args:
        kept: row indices, a tensor for each group.
        advantages: [B] advantages of the input rows that the kept rows bring with them; None: engines compute them
            from the kept rows.
    """
    source = torch.cat([*kept, torch.zeros(0, dtype=torch.long)])
    if len(source) == len(rollouts):
        source = torch.arange(len(rollouts))
    counts = {"kept_rows": float(len(source)), "left_out_rows": float(len(rollouts) - len(source))}
    curation = with_rows(rollouts, source, {**metrics, **counts})
    if advantages is None:
        return curation
    return replace(curation, advantages=advantages[source])


def with_rows(rollouts: Rollouts, source: Int[Tensor, " c"], metrics: dict[str, float]) -> Curation:
    """The curation that takes these rows, in this order."""
    unchanged = identity(rollouts, metrics)
    return replace(unchanged, source=source, rewards=unchanged.rewards[source], weights=unchanged.weights[source])


def reweighted(rollouts: Rollouts, weights: Float[Tensor, " b"], metrics: dict[str, float]) -> Curation:
    """The curation that keeps every row and multiplies its advantage by `weights` [B]; 0 where the reward is NaN."""
    unchanged = identity(rollouts, metrics)
    return replace(unchanged, weights=unchanged.weights * weights)


def half_of_group(size: int) -> int:
    """Half of a group, but at least two rows (one has no variance), and never more than there are."""
    return min(size, max(2, size // 2))
