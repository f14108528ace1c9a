"""Group-relative advantages (Eq. 9)."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.errors import InputError
from geoalign.method.arithmetic import add_rows
from geoalign.method.ties import power_of_two, tied_rewards


def group_advantages(
    rewards: Float[Tensor, " b"],
    groups: Int[Tensor, " b"],
    *,
    weights: Float[Tensor, " b"] | None = None,
    scale: Literal["std", "none"] = "std",
    eps: float = 1e-6,
) -> Float[Tensor, " b"]:
    """Rewards normalised within their group: (r - mean) / (std + eps), times `weights` (Eq. 9).

    The standard deviation has one degree of freedom less than the group has rewards. NaN rewards are left out of the
    statistics. A group of one, or of equal rewards, gives 0; so does a NaN reward. Rewards that differ by rounding only
    count as equal (`geoalign.method.ties.tied_rewards`).

    Rewards of any size that their dtype holds have advantages: statistics are taken in units of the group's largest
    reward. `eps` is in the rewards' own units, so groups whose deviation is far below it have advantages near 0. With
    `scale="none"` a difference beyond the largest number of the dtype becomes that number.

    Args:
        rewards: [B], NaN where a row could not be scored.
        groups: [B] group ids, in any order.
        weights: [B] factor on the normalised advantage; None: 1.
        scale: "std" divides by the group's standard deviation; "none" only subtracts the mean.
        eps: added to the standard deviation.

    Raises:
        InputError: lengths differ, or `scale` is unknown.
    """
    if groups.shape != rewards.shape:
        raise InputError(f"groups: expected shape {tuple(rewards.shape)} as rewards, got {tuple(groups.shape)}")
    if weights is not None and weights.shape != rewards.shape:
        raise InputError(f"weights: expected shape {tuple(rewards.shape)} as rewards, got {tuple(weights.shape)}")
    if scale not in ("std", "none"):
        raise InputError(f"scale: expected 'std' or 'none', got {scale!r}")
    rewards = rewards.detach()
    if not rewards.dtype.is_floating_point or rewards.dtype.itemsize < 4:
        rewards = rewards.float()
    _, member = groups.unique(return_inverse=True)
    scored = ~rewards.isnan()
    values = tied_rewards(rewards, member).masked_fill(~scored, 0)
    empty = rewards.new_zeros(int(member.max()) + 1 if len(member) else 0)
    # Sums of squares would leave the range of large or small rewards; powers of two round nothing.
    unit = power_of_two(empty.scatter_reduce(0, member, values.abs(), "amax"))
    values = values / unit[member]
    count = add_rows(empty.clone(), member, scored.to(rewards.dtype))
    mean = add_rows(empty.clone(), member, values) / count.clamp(min=1)
    centred = (values - mean[member]).masked_fill(~scored, 0)
    # Equal rewards can leave rounding in r - mean; eps alone would let it through as a small advantage.
    equal = _range(values, scored, member, len(empty)) == 0
    centred = centred.masked_fill(equal[member], 0)
    if scale == "std":
        variance = add_rows(empty.clone(), member, centred.square()) / (count - 1).clamp(min=1)
        result = centred / (variance.sqrt() + eps / unit)[member]
    else:
        largest = torch.finfo(centred.dtype).max
        result = (centred * unit[member]).clamp(min=-largest, max=largest)
    return result if weights is None else result * weights.to(result.dtype)


def advantage_cosine(
    advantages: Float[Tensor, " c"],
    source: Int[Tensor, " c"],
    rewards: Float[Tensor, " b"],
    groups: Int[Tensor, " b"],
) -> float:
    """Cosine of the advantages that a batch is trained with to those of other rewards, usually the true ones.

    A row's content may be trained on several times, or not at all: its advantage is the sum over the output rows that
    hold it, a_j = sum over i with source_i = j of A_i. 1 where a curator gives back what true rewards would have given,
    0 where the update has nothing to do with them; NaN where either has no advantage at all.

    Args:
        advantages: [C] of the output rows, weights included.
        source: [C] the input row that each output row holds.
        rewards: [B] the rewards to compare with; rows without one (NaN) have advantage 0.
        groups: [B] group ids.
    """
    wanted = group_advantages(rewards, groups).double()
    given = torch.zeros_like(wanted).index_add_(0, source.to(wanted.device), advantages.to(wanted))
    scale = float(given.norm() * wanted.norm())
    return float(given @ wanted) / scale if scale > 0 else float("nan")


def _range(values: Tensor, scored: Tensor, member: Tensor, groups: int) -> Tensor:
    """[G] the highest less the lowest of the scored values of each group."""
    for_highest = values.masked_fill(~scored, -torch.inf)
    highest = values.new_full((groups,), -torch.inf).scatter_reduce(0, member, for_highest, "amax")
    for_lowest = values.masked_fill(~scored, torch.inf)
    lowest = values.new_full((groups,), torch.inf).scatter_reduce(0, member, for_lowest, "amin")
    return highest - lowest
