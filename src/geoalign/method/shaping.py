"""Rewards shaped against reference rewards (PAR, arXiv 2502.18770)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor


def sigmoid_shaped(
    rewards: Float[Tensor, " b"], references: Float[Tensor, "b m"], *, slope: float
) -> Float[Tensor, " b"]:
    """r' = mean over m of sigmoid(slope (r - ref_m)): the mean of sigmoids, not the sigmoid of the mean.

    NaN references are left out of the mean; a NaN reward, or a row of NaN references alone, gives NaN.
    """
    return torch.sigmoid(slope * (rewards[:, None] - references)).nanmean(dim=1)
