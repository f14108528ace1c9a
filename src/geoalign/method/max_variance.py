"""The subset of rewards with the largest variance (PODS, arXiv 2504.13818)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def max_variance_subset(rewards: Float[Tensor, " n"], m: int) -> Int[Tensor, " m"]:
    """Positions of the m of n rewards whose variance is largest: the i highest and the m - i lowest, for the best i.

    Such a subset always has this form (the paper's theorem), so m + 1 candidates are enough: first the m highest, then
    i = 0, 1, ..., m - 1; a later one wins only with a strictly greater variance. The sort is stable, so among equal
    rewards the first rows count as the highest.

    Args:
        rewards: [n] without NaN, n >= m >= 2.

    Returns:
        [m] positions in descending order of reward.
    """
    n = len(rewards)
    # Variances that differ by rounding only decide ties as the authors' code does: in the rewards' own precision.
    rewards = rewards if rewards.dtype.itemsize >= 4 else rewards.float()
    # By a power of two, which rounds nothing: squares of very large or small rewards leave float32 otherwise.
    rewards = torch.ldexp(rewards, -torch.frexp(rewards.abs().max()).exponent)
    descending = rewards.argsort(descending=True, stable=True)
    candidates = torch.arange(m).repeat(m + 1, 1)
    # Row i + 1 is candidate i: the positions from i on move to the end of the order.
    lowest = torch.arange(m)[None, :] >= torch.arange(m)[:, None]
    candidates[1:] += (n - m) * lowest
    variance = rewards[descending][candidates].var(dim=1)
    first = (variance == variance.max()).nonzero()[0, 0]
    return descending[candidates[first]]
