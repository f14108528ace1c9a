"""TRL's advantages where TRL cannot compute them itself: over the kept rows only."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.errors import UnsupportedError
from geoalign.method.advantages import group_advantages

# The constant that TRL adds to a standard deviation (not an option there).
TRL_EPSILON = 1e-4


def total_rewards(per_function: Float[Tensor, "b f"], weights: Float[Tensor, " f"]) -> Float[Tensor, " b"]:
    """TRL's reward of each row: the weighted sum over its reward functions, leaving NaN out; NaN where all are NaN."""
    total = (per_function * weights.to(per_function.device)).nansum(dim=1)
    return total.masked_fill(per_function.isnan().all(dim=1), torch.nan)


def trl_advantages(
    rewards: Float[Tensor, " b"], groups: Int[Tensor, " b"], *, scale_rewards: str
) -> Float[Tensor, " b"]:
    """Advantages as TRL computes them under `multi_objective_aggregation="sum_then_normalize"`.

    Rows with a NaN reward (dropped or unscorable) are left out of every statistic and get 0. A batch with fewer than
    two rewards gives 0.

    Args:
        rewards: [B].
        groups: [B] group ids.
        scale_rewards: "group" divides by the group's standard deviation, "batch" by that of the batch, "none" by
            nothing.

    Raises:
        UnsupportedError: another value of `scale_rewards`.
    """
    if scale_rewards == "group":
        return group_advantages(rewards, groups, scale="std", eps=TRL_EPSILON)
    if scale_rewards not in ("batch", "none"):
        raise UnsupportedError(f"scale_rewards: expected 'group', 'batch' or 'none', got {scale_rewards!r}")
    centred = group_advantages(rewards, groups, scale="none")
    return centred if scale_rewards == "none" else _over_batch_deviation(centred, rewards)


def trl_advantages_by_function(
    per_function: Float[Tensor, "b f"], weights: Float[Tensor, " f"], groups: Int[Tensor, " b"]
) -> Float[Tensor, " b"]:
    """Advantages as TRL computes them under `multi_objective_aggregation="normalize_then_sum"`.

    Each reward function is normalised within its groups, the weighted sum over the functions then over the batch. Rows
    where every function gave NaN are left out and get 0.
    """
    columns = [group_advantages(column, groups, scale="std", eps=TRL_EPSILON) for column in per_function.unbind(1)]
    summed = torch.stack(columns, dim=1) @ weights.to(per_function.device)
    summed = summed.masked_fill(per_function.isnan().all(dim=1), torch.nan)
    return _over_batch_deviation((summed - summed.nanmean()).nan_to_num(0.0), summed)


def _over_batch_deviation(centred: Tensor, values: Tensor) -> Tensor:
    present = values[~values.isnan()]
    if len(present) < 2:
        return torch.zeros_like(centred)
    return centred / (present.std() + TRL_EPSILON)
