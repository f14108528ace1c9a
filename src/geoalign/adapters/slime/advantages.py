"""slime's rewards within a prompt, over the rollouts that count."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def normalised_rewards(
    rewards: Float[Tensor, " b"],
    groups: Int[Tensor, " b"],
    active: Bool[Tensor, " b"],
    *,
    normalise: bool,
    by_std: bool,
) -> Float[Tensor, " b"]:
    """What slime's estimators take for the advantage of every token: (r - mean) / (std + 1e-6) within a group.

    As `RolloutManager._post_process_rewards` of slime 0.3.1, bit for bit where its groups are whole: the standard
    deviation (one degree of freedom less) is that of the centred rewards. Other than there, rows that do not count are
    left out of mean and deviation and get 0, and groups may have any size. A row alone gets 0.

    Args:
        active: [B] the rows that count; their rewards are numbers.
        normalise: not with `--disable-rewards-normalization`: the rewards themselves then.
        by_std: not with `--disable-grpo-std-normalization`.
    """
    found = torch.zeros_like(rewards)
    if not normalise:
        return torch.where(active, rewards, found)
    counting = active.nonzero().flatten()
    _, member, sizes = groups[counting].unique(return_inverse=True, return_counts=True)
    for size in sizes.unique().tolist():
        order = member.argsort(stable=True)
        chosen = counting[order[sizes[member[order]] == size]].reshape(-1, size)
        centred = rewards[chosen] - rewards[chosen].mean(dim=-1, keepdim=True)
        if by_std and size > 1:
            centred = centred / (centred.std(dim=-1, keepdim=True) + 1e-6)
        found[chosen] = centred
    return found
