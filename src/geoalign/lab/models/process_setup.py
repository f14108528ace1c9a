"""How a process is set up before it works: repeatable bit for bit on one machine, and quiet."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import gather_object
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
def with_own_seed(seed: int) -> Iterator[None]:
    """Runs its body with generators seeded afresh, and puts back the state they had: an evaluation leaves no trace."""
    python_state = random.getstate()
    numpy_state = np.random.get_state()
    with torch.random.fork_rng():
        try:
            set_seed(seed)
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)


_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Processes:
    """This process's rank among `count`; one process alone is rank 0 of 1, and never waits at a barrier.

    Only the first process writes into the run folder, which all must see: one machine, or a shared file system.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def launched(cls) -> Processes:
        """As the launcher's environment says (RANK, WORLD_SIZE); nothing is initialised."""
        rank = int(os.environ.get("RANK", "0"))
        count = int(os.environ.get("WORLD_SIZE", "1"))
        return cls(rank=rank, count=count)

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def barrier(self) -> None:
        """Waits until all processes have come here."""
        if self.count > 1:
            PartialState().wait_for_everyone()

    def share(self, items: Sequence[_Item]) -> list[_Item]:
        """Every `count`-th item from this process's rank on: the shares of all processes are all items, each once."""
        return list(items[self.rank :: self.count])

    def gather(self, items: list[_Item]) -> list[_Item]:
        """The items of all processes in order of rank, on every process."""
        return list(gather_object(items)) if self.count > 1 else items
