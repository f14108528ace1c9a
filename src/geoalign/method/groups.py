"""A canonical order of the rows, so that nothing depends on the order in which they came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.method.arithmetic import add_rows
from geoalign.method.ties import tied_rewards

FOLDS = 5  # of groups, each predicted by fits on the others
# Rows are summed in chunks of about this many numbers.
_CHUNK = 1 << 20


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """B rows sorted by group, within a group by ascending reward (NaN last).

    Attributes:
        order: [B] input row at each sorted position.
        group: [B] dense group index at each sorted position, non-decreasing; dense indices follow the sorted group ids.
        offsets: [G + 1] group g occupies the sorted positions offsets[g] to offsets[g + 1].
    """

    order: Int[Tensor, " b"]
    group: Int[Tensor, " b"]
    offsets: Int[Tensor, " g1"]

    @property
    def sizes(self) -> Int[Tensor, " g"]:
        """[G] rows of each group."""
        return self.offsets[1:] - self.offsets[:-1]


def canonical_order(
    rewards: Float[Tensor, " b"], groups: Int[Tensor, " b"], hidden: Float[Tensor, "b d"] | None = None
) -> GroupedRows:
    """Sorts the rows by group id, then reward, then the sum of the hidden state (so that ties have an order too).

    Rewards that differ by rounding only are ties (`geoalign.method.ties.tied_rewards`).
    Two batches that hold the same rows in different orders give the same sorted batch; rows equal in all three keys are
    told apart by their input order only. Everything random is drawn over sorted positions. On the device of the
    rewards.
    """
    order = torch.arange(len(rewards), device=rewards.device)
    if hidden is not None:
        order = row_sums(hidden).argsort(stable=True).to(rewards.device)
    order = order[tied_rewards(rewards, groups)[order].argsort(stable=True)]
    order = order[groups[order].argsort(stable=True)]
    _, group, sizes = groups[order].unique_consecutive(return_inverse=True, return_counts=True)
    offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    return GroupedRows(order=order, group=group, offsets=offsets)


def in_input_order(rows: GroupedRows, device: torch.device) -> Callable[[Tensor], Tensor]:
    """A function that brings a [B] tensor from sorted to input order, on `device`."""

    def back(value: Tensor) -> Tensor:
        restored = torch.empty_like(value)
        restored[rows.order] = value
        return restored.to(device)

    return back


def group_centred(states: Float[Tensor, "b d"], group: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
    """Every state minus the mean of its group, in float32; `group` holds dense indices."""
    states = states.float()
    count = torch.bincount(group).clamp(min=1).to(states.dtype)
    total = add_rows(states.new_zeros(len(count), states.shape[1]), group, states)
    mean = total / count[:, None]
    return states - mean[group]


def content_folds(content: Float[Tensor, " n"], group: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """Groups dealt to `FOLDS` folds in the order of their content, so that no group id matters."""
    content_of_group = torch.bincount(group, weights=content)
    rank = content_of_group.argsort(stable=True).argsort()
    return (rank % FOLDS)[group]


def row_sums(hidden: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
    """Every row's sum in float64, a chunk of rows at a time: on a CPU torch makes a float64 copy of what it sums."""
    widest = torch.float32 if hidden.device.type == "mps" else torch.float64
    sums = torch.empty(len(hidden), dtype=widest, device=hidden.device)
    chunk = max(1, _CHUNK // max(1, hidden.shape[1]))
    for start in range(0, len(hidden), chunk):
        sums[start : start + chunk] = hidden[start : start + chunk].sum(dim=1, dtype=sums.dtype)
    return sums
