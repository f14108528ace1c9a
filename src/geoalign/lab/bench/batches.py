"""Batches of rollouts with known corrupted rewards, saved and read as safetensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Bool, Int
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from geoalign.errors import InputError
from geoalign.types import Rollouts

_TENSORS = ("hidden", "rewards", "groups", "corrupted")
# Kept where the rollouts have them.
_OPTIONAL = ("true_rewards", "response_keys")
# Answers, numbered; rows without one have this number.
_ANSWERS, _NO_ANSWER = "answers", -1


@dataclass(frozen=True, eq=False)
class PlantedBatch:
    """Rollouts with hidden states, and which of their rewards were corrupted."""

    rollouts: Rollouts
    corrupted: Bool[Tensor, " b"]


def save_batch(path: Path, batch: PlantedBatch) -> None:
    """Writes `hidden` [B, d], `rewards` [B], `groups` [B] and `corrupted` [B]; an existing file is replaced.

    Also `true_rewards` [B], `response_keys` [B] and `answers` [B] (numbered, equal ones alike; -1: none) where the
    rollouts have them.
    """
    rollouts = batch.rollouts
    rollouts.require("hidden", by="save_batch")
    assert rollouts.hidden is not None
    tensors = {
        "hidden": rollouts.hidden,
        "rewards": rollouts.rewards,
        "groups": rollouts.groups,
        "corrupted": batch.corrupted,
        **{name: value for name in _OPTIONAL if (value := getattr(rollouts, name)) is not None},
    }
    if rollouts.answers is not None:
        tensors[_ANSWERS] = _numbered(rollouts.answers)
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
    rollouts = Rollouts(
        rewards=tensors["rewards"],
        groups=tensors["groups"],
        hidden=tensors["hidden"],
        true_rewards=tensors.get("true_rewards"),
        response_keys=tensors.get("response_keys"),
        answers=_named(tensors[_ANSWERS]) if _ANSWERS in tensors else None,
    )
    return PlantedBatch(rollouts, corrupted)


def _numbered(answers: Sequence[str | None]) -> Int[Tensor, " b"]:
    numbers: dict[str, int] = {}
    return torch.tensor(
        [_NO_ANSWER if answer is None else numbers.setdefault(answer, len(numbers)) for answer in answers]
    )


def _named(numbers: Int[Tensor, " b"]) -> list[str | None]:
    return [None if number == _NO_ANSWER else str(number) for number in numbers.tolist()]
