"""Advantages over a quantile of the group's rewards instead of their mean (QAE, arXiv 2509.22611)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor


def lower_quantile(values: Float[Tensor, " n"], level: float) -> Float[Tensor, ""]:
    """The smallest value that at least a share `level` of the values does not exceed (no interpolation)."""
    ascending = values.sort().values
    # Half a millionth of a rank: 0.4 * 5 must not become rank 3 by rounding.
    rank = max(1, math.ceil(level * len(values) - 5e-7))
    return ascending[rank - 1]


def quantile_advantages(
    rewards: Float[Tensor, " n"], *, level: float, scale: Literal["std", "none"], eps: float = 1e-6
) -> Float[Tensor, " n"]:
    """A = (r - Q_level) / (std + eps) in one group of rewards without NaN; equal rewards give 0.

    With binary rewards of success rate p the baseline is 0 where p <= 1 - level, so that only successes count, and 1
    beyond, so that only failures do.
    """
    rewards = rewards if rewards.dtype.itemsize >= 4 else rewards.float()
    if len(rewards) < 2 or bool((rewards == rewards[0]).all()):
        return torch.zeros_like(rewards)
    centred = rewards - lower_quantile(rewards, level)
    return centred / (rewards.std() + eps) if scale == "std" else centred
