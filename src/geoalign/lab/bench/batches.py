"""Batches of rollouts with known corrupted rewards, saved and read as safetensors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from geoalign.errors import InputError
from geoalign.types import Rollouts

_TENSORS = ("hidden", "rewards", "groups", "corrupted")


@dataclass(frozen=True, eq=False)
class PlantedBatch:
    """Rollouts with hidden states, and which of their rewards were corrupted."""

    rollouts: Rollouts
    corrupted: Bool[Tensor, " b"]


def save_batch(path: Path, batch: PlantedBatch) -> None:
    """Writes `hidden` [B, d], `rewards` [B], `groups` [B] and `corrupted` [B]; an existing file is replaced."""
    batch.rollouts.require("hidden", by="save_batch")
    assert batch.rollouts.hidden is not None
    tensors = {
        "hidden": batch.rollouts.hidden,
        "rewards": batch.rollouts.rewards,
        "groups": batch.rollouts.groups,
        "corrupted": batch.corrupted,
    }
    partial = path.with_name(path.name + ".partial")
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, partial)
    partial.replace(path)


def load_batch(path: Path) -> PlantedBatch:
    """Reads what `save_batch` wrote.

    Raises:
        InputError: the file is missing, broken, or lacks a tensor; the message names it.
    """
    if not path.is_file():
        raise InputError(f"batch: expected a safetensors file, got none at {path}")
    try:
        tensors = load_file(path)
    except SafetensorError as error:
        raise InputError(f"batch: expected a whole safetensors file, got {error} in {path}") from error
    missing = [name for name in _TENSORS if name not in tensors]
    if missing:
        raise InputError(f"batch: expected tensors {', '.join(_TENSORS)}; missing {', '.join(missing)} in {path}")
    corrupted = tensors["corrupted"]
    if corrupted.dtype != torch.bool or corrupted.shape != tensors["rewards"].shape:
        raise InputError(
            f"batch: expected `corrupted` as bool of shape {tuple(tensors['rewards'].shape)}, "
            f"got {corrupted.dtype} {tuple(corrupted.shape)} in {path}"
        )
    rollouts = Rollouts(rewards=tensors["rewards"], groups=tensors["groups"], hidden=tensors["hidden"])
    return PlantedBatch(rollouts, corrupted)
