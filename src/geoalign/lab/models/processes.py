"""The processes of one run, as torchrun and `accelerate launch` start them, and what goes between them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from accelerate import PartialState
from accelerate.utils import gather_object

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Processes:
    """This process's rank among `count`; one process alone is rank 0 of 1, and its barriers are none.

    Only the first process writes into the run folder, which all must see: one machine, or a shared file system.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def launched(cls) -> Processes:
        """As the launcher's environment says (RANK, WORLD_SIZE); nothing is initialised."""
        return cls(rank=int(os.environ.get("RANK", "0")), count=int(os.environ.get("WORLD_SIZE", "1")))

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def barrier(self) -> None:
        if self.count > 1:
            PartialState().wait_for_everyone()

    def share(self, items: Sequence[_Item]) -> list[_Item]:
        """Every `count`-th item from this process's rank on: the shares of all processes are all items, each once."""
        return list(items[self.rank :: self.count])

    def gather(self, items: list[_Item]) -> list[_Item]:
        """The items of all processes in order of rank, on every process."""
        return list(gather_object(items)) if self.count > 1 else items
