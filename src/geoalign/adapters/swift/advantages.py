"""ms-swift's advantages over the rows that have a reward (`swift/rl_core/advantage.py` of 4.6 knows no row without)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.method.advantages import group_advantages

# The constant that ms-swift adds to a standard deviation (not an option there).
SWIFT_EPSILON = 1e-4


def swift_advantages(
    rewards: Float[Tensor, " b"], groups: Int[Tensor, " b"], *, estimator: str, scale_rewards: str
) -> Float[Tensor, " b"]:
    """Advantages as ms-swift computes them, from one reward per row.

    r - mean of the group, for `rloo` times k / (k - 1) with k the rewards of the group; divided by a standard deviation
    of the group or the batch: of the rewards, for `reinforce_plus_plus` of the advantages. Rows with a NaN reward are
    left out of every statistic and get 0; so does a group of one.

    Args:
        rewards: [B].
        groups: [B] group ids.
        estimator: "grpo", "rloo" or "reinforce_plus_plus".
        scale_rewards: "group", "batch" or "none".
    """
    if scale_rewards == "group":
        advantages = group_advantages(rewards, groups, eps=SWIFT_EPSILON)
    else:
        advantages = group_advantages(rewards, groups, scale="none")
    scored = ~rewards.isnan()
    if estimator == "rloo":
        _, member = groups.unique(return_inverse=True)
        count = torch.zeros_like(rewards).index_add(0, member, scored.to(rewards.dtype))[member]
        advantages = advantages * count / (count - 1).clamp(min=1)
    if scale_rewards == "batch" and int(scored.sum()) > 1:
        values = advantages if estimator == "reinforce_plus_plus" else rewards
        advantages = advantages / (values[scored].std() + SWIFT_EPSILON)
    return advantages
