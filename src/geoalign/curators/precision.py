"""The arithmetic in which curators compute, whatever the thread that calls them has set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from geoalign.types import Rollouts


@contextmanager
def full_precision(rollouts: Rollouts) -> Iterator[None]:
    """Keeps the caller's autocast, inference mode and gradient mode out; all three belong to the calling thread alone.

    What torch keeps for the whole process stays as it is, for other threads would see a change: the default dtype,
    reduced matrix products (TF32, bfloat16), deterministic algorithms. Curators depend on none of them. They name the
    dtype of what they make, and take products and sums by index from `geoalign.method.arithmetic`.

    On CUDA cuBLAS promises its bits for one stream, or with CUBLAS_WORKSPACE_CONFIG set.
    """
    device = rollouts.rewards.device if rollouts.hidden is None else rollouts.hidden.device
    with torch.inference_mode(False), torch.no_grad(), torch.autocast(device.type, enabled=False):
        yield
