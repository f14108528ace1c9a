"""Advantages around the group's median, scaled by its median absolute deviation (MC-GRPO, arXiv 2601.22582)."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor


def median(values: Float[Tensor, " n"]) -> Float[Tensor, ""]:
    """The middle value, or the mean of the two middle ones (`torch.median` takes the lower of them)."""
    ascending = values.sort().values
    return (ascending[(len(values) - 1) // 2] + ascending[len(values) // 2]) / 2


def median_advantages(
    rewards: Float[Tensor, " n"], *, eps: float, zero_mad: Literal["std", "eps"]
) -> tuple[Float[Tensor, " n"], bool]:
    """A = (r - median) / (MAD + eps) in one group of rewards without NaN; equal rewards give 0.

    Where more than half of the rewards are equal the MAD is 0 (binary rewards: always, but for an even split). The
    standard deviation stands in for it then, or (`zero_mad="eps"`, as released) nothing: advantages of size 1 / eps.

    Returns:
        [n] advantages, and whether the MAD was 0 although the rewards differ.
    """
    rewards = rewards if rewards.dtype.itemsize >= 4 else rewards.float()
    if len(rewards) < 2 or bool((rewards == rewards[0]).all()):
        return torch.zeros_like(rewards), False
    centred = rewards - median(rewards)
    scale = median(centred.abs())
    without = bool(scale == 0)
    if without and zero_mad == "std":
        scale = rewards.std()
    return centred / (scale + eps), without
