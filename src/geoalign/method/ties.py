"""Which rewards of a group differ by rounding only, and a unit in which sums of their squares stay in range."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Rewards are equal up to this many machine epsilons of the largest reward of their group. A weighted sum of a few
# reward functions is off by one to four of them; 1e6 and 1e6 + 1 are 8.4 apart in float32, and stay different.
ROUNDING_STEPS = 8
_FLOAT32 = torch.finfo(torch.float32)
# The bits of a float that hold its exponent.
_EXPONENT = {torch.float32: (torch.int32, 0x7F800000), torch.float64: (torch.int64, 0x7FF0000000000000)}


def tied_rewards(rewards: Float[Tensor, " b"], groups: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
    """The rewards, made equal where those of a group differ by rounding only.

    The rewards of a group, in ascending order, fall into levels: a new one begins where the next reward is higher by
    more than 8 eps max |r|, with eps the machine epsilon of float32 (1.2e-7) and the maximum over the group. Every
    reward becomes the lowest of its level. So the float32 sums 0.1 + 0.6 and 0.7 + 0.0 tie, and rewards that are
    further apart, or equal, keep every bit. Neither the order of the rows nor other groups matter.

    - Levels are made of gaps: in a chain of near-equal rewards all tie, also the first and the last. Otherwise a tie
      would depend on where counting begins.
    - float64: eps is that of float64 (2.2e-16), unless float32 holds every reward of the group exactly. Then they are
      taken for what they most likely are, float32 numbers from a file or a cast.
    - Terms that cancel leave a rounding error as large as the terms, not as the sum: 0 and 3e-8 alone in a group are
      different rewards.

    NaN rewards stay NaN.

    Args:
        rewards: [B] float32 or float64, in any order.
        groups: [B] group ids.
    """
    if len(rewards) < 2:
        return rewards
    order = rewards.argsort(stable=True)
    order = order[groups[order].argsort(stable=True)]
    ascending = rewards[order]
    named = groups[order]
    begins = torch.ones_like(order, dtype=torch.bool)
    begins[1:] = named[1:] != named[:-1]
    group = begins.cumsum(0) - 1
    reach = _rounding(ascending, group)
    # NaN rewards come last in their group, each on a level of its own.
    gap = ascending[1:] - ascending[:-1]
    begins[1:] |= (gap > reach[1:]) | ascending[1:].isnan()
    place = torch.arange(len(order), device=order.device)
    lowest = torch.where(begins, place, torch.zeros_like(place)).cummax(0).values
    tied = torch.empty_like(rewards)
    tied[order] = ascending[lowest]
    return tied


def _rounding(rewards: Float[Tensor, " b"], group: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
    """[B] how far apart two rewards of a row's group may be by rounding; `group` holds dense indices."""
    size = rewards.abs().nan_to_num(nan=0.0, posinf=0.0)
    epsilon = torch.full_like(size, torch.finfo(size.dtype).eps)
    if size.dtype == torch.float64:
        # 1 for rewards that float32 does not hold.
        wide = ((rewards.float().double() != rewards) & ~rewards.isnan()).to(size)
        epsilon = torch.where(_highest(wide, group) > 0, epsilon, _FLOAT32.eps)
    return ROUNDING_STEPS * epsilon * _highest(size, group)


def _highest(values: Float[Tensor, " b"], group: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
    """[B] the highest of the values, none of them negative, of a row's group."""
    return torch.zeros_like(values).scatter_reduce(0, group, values, "amax")[group]


def power_of_two(size: Float[Tensor, " *n"]) -> Float[Tensor, " *n"]:
    """The largest power of two that does not exceed |size|, at least the smallest normal number; infinite where size
    is not finite.

    Divided by the unit of their largest, rewards lie between -2 and 2 and their squares in range, and no bit is lost.
    """
    integer, exponent = _EXPONENT[size.dtype]
    return (size.view(integer) & exponent).view(size.dtype).clamp(min=torch.finfo(size.dtype).tiny)
