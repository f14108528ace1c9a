"""How much a group of binary rewards says when some of them are flipped (S-GRPO, arXiv 2508.05928)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

# The paper's constant under both roots.
EPSILON = 1e-8


def noise_aware_weight(success: Float[Tensor, " g"], flip_rate: float) -> Float[Tensor, " g"]:
    """The factor on the std-normalised advantages of groups with observed success rates q, under flips of rate p < 1/2.

    t = clip((q - p) / (1 - 2p), 0, 1) is the success rate behind the flips; the weight
    (1 - 2p) t (1 - t) / (sqrt(q (1 - q) + 1e-8) sqrt(t (1 - t) + 1e-8)) is 0 where the flips alone explain what came.
    """
    success = success.double()
    clean = ((success - flip_rate) / (1 - 2 * flip_rate)).clamp(0, 1)
    spread, observed = clean * (1 - clean), success * (1 - success)
    weight = (1 - 2 * flip_rate) * spread / (torch.sqrt(observed + EPSILON) * torch.sqrt(spread + EPSILON))
    return weight.float()
