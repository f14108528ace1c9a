"""The arithmetic in which curators compute, whatever the process around them has set."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from geoalign.types import Rollouts


@contextmanager
def full_precision(rollouts: Rollouts) -> Iterator[None]:
    """Computes in full float32, in a fixed order of additions where the device has one; restores what was set.

    Keeps the caller's autocast, inference mode, default dtype and reduced matrix products (TF32, bfloat16) out. On CUDA
    it asks for deterministic algorithms: sums by index are atomic there otherwise, in an order that changes from run to
    run. cuBLAS promises its bits for one stream, or with CUBLAS_WORKSPACE_CONFIG set; where it is not set this neither
    fails nor warns. These settings belong to the process, so other threads see them while a curator runs.
    """
    device = rollouts.rewards.device if rollouts.hidden is None else rollouts.hidden.device
    before = torch.get_default_dtype()
    on_cuda = deterministic() if device.type == "cuda" else nullcontext()
    with torch.inference_mode(False), torch.no_grad(), torch.autocast(device.type, enabled=False):
        try:
            torch.set_default_dtype(torch.float32)
            with _full_products(), on_cuda:
                yield
        finally:
            torch.set_default_dtype(before)


@contextmanager
def deterministic() -> Iterator[None]:
    """Deterministic algorithms where there are any; an operation without one warns, and cuBLAS' workspace is let be."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    memory: Any = torch.utils.deterministic
    fills = memory.fill_uninitialized_memory
    try:
        torch.use_deterministic_algorithms(True, warn_only=True)
        # Filling fresh memory finds mistakes and costs time; it makes nothing more deterministic here.
        memory.fill_uninitialized_memory = False
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*CUBLAS_WORKSPACE_CONFIG.*")
            yield
    finally:
        memory.fill_uninitialized_memory = fills
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@contextmanager
def _full_products() -> Iterator[None]:
    """No TF32 and no bfloat16 inside float32 products, on CUDA, cuDNN and oneDNN."""
    backends: Any = torch.backends
    # torch 2.9 gave each operation a setting of its own and keeps the older flags beside it; a read of an older one
    # fails where the two differ. Both are set, so that nothing inside sees a mixture.
    own = []
    if hasattr(backends, "fp32_precision"):
        operations = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn, backends.mkldnn.matmul)
        own = [(operation, operation.fp32_precision) for operation in operations]
    products = _readable(torch.get_float32_matmul_precision)
    convolutions = _readable(lambda: backends.cudnn.allow_tf32)
    try:
        torch.set_float32_matmul_precision("highest")
        backends.cudnn.allow_tf32 = False
        for operation, _ in own:
            operation.fp32_precision = "ieee"
        yield
    finally:
        if products is not None:
            torch.set_float32_matmul_precision(products)
        if convolutions is not None:
            backends.cudnn.allow_tf32 = convolutions
        for operation, precision in own:
            operation.fp32_precision = precision


def _readable(read: Any) -> Any:
    """The flag; None where torch refuses to tell, because the newer settings say something else."""
    try:
        return read()
    except RuntimeError:
        return None
