"""The advantages of TRL and of ms-swift where they cannot compute them themselves: of curated, or missing, rewards."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

# The constant that both add to a standard deviation (not an option there).
EPSILON = 1e-4


def total_rewards(per_function: Float[Tensor, "b f"], weights: Float[Tensor, " f"]) -> Float[Tensor, " b"]:
    """The reward of each row: the weighted sum over its reward functions, leaving NaN out; NaN where all are NaN."""
    total = (per_function * weights.to(per_function.device)).nansum(dim=1)
    return total.masked_fill(per_function.isnan().all(dim=1), torch.nan)


def scaled_advantages(
    rewards: Float[Tensor, " b"], size: int, *, scale_rewards: str, estimator: str = "grpo"
) -> Float[Tensor, " b"]:
    """Advantages as TRL (under `sum_then_normalize`) and ms-swift compute them, from one reward per row of groups of
    `size` that stand one after the other. Operations are TRL's own, bit for bit.

    r - mean of the group, for `rloo` times k / (k - 1) with k the rewards of the group; divided by a standard deviation
    of the "group" or the "batch" (or "none"): of the rewards, for `reinforce_plus_plus` of the advantages. Rows with a
    NaN reward are left out of every statistic and get 0; so does a group of one.
    """
    grouped = rewards.view(-1, size)
    advantages = rewards - torch.nanmean(grouped, dim=1).repeat_interleave(size)
    if estimator == "rloo":
        count = (~grouped.isnan()).sum(1)
        advantages = advantages * (count / (count - 1).clamp(min=1)).repeat_interleave(size)
    if scale_rewards != "none":
        values = (advantages if estimator == "reinforce_plus_plus" else rewards).view(
            -1, size if scale_rewards == "group" else len(rewards)
        )
        count = torch.sum(~values.isnan(), dim=1, keepdim=True)
        variance = torch.nanmean((values - torch.nanmean(values, dim=1, keepdim=True)) ** 2, dim=1, keepdim=True)
        deviation = torch.sqrt(variance * (count / (count - 1)))
        advantages = advantages / (deviation.squeeze(1).repeat_interleave(values.shape[1]) + EPSILON)
    return advantages.nan_to_num(0.0)


def advantages_by_function(
    per_function: Float[Tensor, "b f"], weights: Float[Tensor, " f"], size: int
) -> Float[Tensor, " b"]:
    """Advantages as TRL computes them under `multi_objective_aggregation="normalize_then_sum"`.

    Each reward function is normalised within its groups, the weighted sum over the functions then over the batch. Rows
    where every function gave NaN are left out and get 0.
    """
    columns = [scaled_advantages(column, size, scale_rewards="group") for column in per_function.unbind(1)]
    summed = torch.stack(columns, dim=1) @ weights.to(per_function.device)
    summed = summed.masked_fill(per_function.isnan().all(dim=1), torch.nan)
    return scaled_advantages(summed, len(summed), scale_rewards="group")
