"""What makes a run repeatable bit for bit on one machine."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from transformers import set_seed


def make_repeatable(seed: int, *, threads: int) -> None:
    """Seeds every generator, fixes the number of CPU threads and asks torch for deterministic kernels.

    The number of threads decides in which order sums are taken, so a resumed run takes that of its start. Where
    torch has no deterministic kernel it says so once and goes on.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # Filling fresh memory is only for programs that read memory they never wrote; it costs time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(True, warn_only=True)
    warnings.filterwarnings("once", message=".*does not have a deterministic implementation.*")
    torch.set_num_threads(threads)
    set_seed(seed)


def use_one_device() -> None:
    """Hides all but the first visible GPU: transformers would split each batch over all of them in one process.

    Must run before CUDA is first used.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    os.environ["CUDA_VISIBLE_DEVICES"] = visible.partition(",")[0]


@contextmanager
def undisturbed(seed: int) -> Iterator[None]:
    """Runs its body with generators seeded afresh, and puts back the state they had: an evaluation leaves no trace."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        try:
            set_seed(seed)
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
