"""Weights from trainer to separate rollout workers by a file, where verl has NCCL and the like; for tests only.

verl imports it by `rollout.checkpoint_engine.custom_backend_module`.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from verl.checkpoint_engine import CheckpointEngine, CheckpointEngineRegistry


@CheckpointEngineRegistry.register("file")
class FileCheckpointEngine(CheckpointEngine):
    """The first trainer writes all weights to one file, which appears whole; every rollout worker waits for it."""

    def __init__(self, bucket_size: int, is_master: bool = False) -> None:
        self.is_master = is_master
        self.folder = Path()

    def prepare(self) -> str | None:
        return tempfile.mkdtemp(prefix="verl_weights_") if self.is_master else None

    @classmethod
    def build_topology(cls, trainers: int, rollouts: int, metadata: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"folder": [metadata[0]] * trainers}, {"folder": [metadata[0]] * rollouts}

    def init_process_group(self, folder: str) -> None:
        self.folder = Path(folder)

    def finalize(self) -> None:
        if self.is_master:
            shutil.rmtree(self.folder)

    async def send_weights(self, weights: Iterable[tuple[str, torch.Tensor]], global_steps: int | None = None) -> None:
        # Gathering them takes every trainer.
        held = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in weights}
        if self.is_master:
            save_file(held, self.folder / "unfinished")
            (self.folder / "unfinished").rename(self.folder / "weights")

    async def receive_weights(self, global_steps: int | None = None) -> AsyncIterator[tuple[str, torch.Tensor]]:
        while not (self.folder / "weights").exists():
            await asyncio.sleep(0.02)
        for name, tensor in load_file(self.folder / "weights").items():
            yield name, tensor
