"""The advantages of TRL and of ms-swift where they cannot compute them themselves: of curated, or missing, rewards."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.method.advantages import group_advantages

# The constant that both add to a standard deviation (not an option there).
EPSILON = 1e-4


def total_rewards(per_function: Float[Tensor, "b f"], weights: Float[Tensor, " f"]) -> Float[Tensor, " b"]:
    """The reward of each row: the weighted sum over its reward functions, leaving NaN out; NaN where all are NaN."""
    total = (per_function * weights.to(per_function.device)).nansum(dim=1)
    return total.masked_fill(per_function.isnan().all(dim=1), torch.nan)


def scaled_advantages(
    rewards: Float[Tensor, " b"], groups: Int[Tensor, " b"], *, scale_rewards: str, estimator: str = "grpo"
) -> Float[Tensor, " b"]:
    """Advantages as TRL (under `sum_then_normalize`) and ms-swift compute them, from one reward per row.

    r - mean of the group, for `rloo` times k / (k - 1) with k the rewards of the group; divided by a standard deviation
    of the group or the batch: of the rewards, for `reinforce_plus_plus` of the advantages. Rows with a NaN reward are
    left out of every statistic and get 0; so does a group of one.

    Args:
        rewards: [B].
        groups: [B] group ids.
        scale_rewards: "group", "batch" or "none".
        estimator: of ms-swift: "grpo", "rloo" or "reinforce_plus_plus".
    """
    size = int((groups == groups[:1]).sum())
    if estimator == "grpo" and not bool(rewards.isnan().any()) and torch.equal(groups, _in_order(groups, size)):
        return _trls(rewards, size, scale_rewards)
    advantages = group_advantages(rewards, groups, scale="std" if scale_rewards == "group" else "none", eps=EPSILON)
    scored = ~rewards.isnan()
    if estimator == "rloo":
        _, member = groups.unique(return_inverse=True)
        count = torch.zeros_like(rewards).index_add(0, member, scored.to(rewards.dtype))[member]
        advantages = advantages * count / (count - 1).clamp(min=1)
    if scale_rewards == "batch":
        values = advantages if estimator == "reinforce_plus_plus" else rewards
        advantages = _over_batch_deviation(advantages, values.masked_fill(~scored, torch.nan))
    return advantages


def _in_order(groups: Tensor, size: int) -> Tensor:
    return torch.arange(len(groups), device=groups.device) // max(size, 1)


def _trls(rewards: Float[Tensor, " b"], size: int, scale_rewards: str) -> Float[Tensor, " b"]:
    """TRL's own operations on whole groups, so that its bits come out where its code could have computed them."""
    grouped = rewards.view(-1, size)
    centred = rewards - torch.nanmean(grouped, dim=1).repeat_interleave(size)
    if scale_rewards == "none":
        return centred
    values = grouped if scale_rewards == "group" else rewards[None]
    count = torch.sum(~values.isnan(), dim=1, keepdim=True)
    variance = torch.nanmean((values - torch.nanmean(values, dim=1, keepdim=True)) ** 2, dim=1, keepdim=True)
    deviation = torch.sqrt(variance * (count / (count - 1)))
    each = deviation.squeeze(1).repeat_interleave(rewards.numel() // len(values))
    return (centred / (each + EPSILON)).nan_to_num(0.0)


def advantages_by_function(
    per_function: Float[Tensor, "b f"], weights: Float[Tensor, " f"], groups: Int[Tensor, " b"]
) -> Float[Tensor, " b"]:
    """Advantages as TRL computes them under `multi_objective_aggregation="normalize_then_sum"`.

    Each reward function is normalised within its groups, the weighted sum over the functions then over the batch. Rows
    where every function gave NaN are left out and get 0.
    """
    columns = [group_advantages(column, groups, scale="std", eps=EPSILON) for column in per_function.unbind(1)]
    summed = torch.stack(columns, dim=1) @ weights.to(per_function.device)
    summed = summed.masked_fill(per_function.isnan().all(dim=1), torch.nan)
    return _over_batch_deviation((summed - summed.nanmean()).nan_to_num(0.0), summed)


def _over_batch_deviation(centred: Tensor, values: Tensor) -> Tensor:
    present = values[~values.isnan()]
    if len(present) < 2:
        return torch.zeros_like(centred)
    return centred / (present.std() + EPSILON)
