"""Keeps what the curator saw and decided: one parquet file of rollouts per generation, now and then its details."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from geoalign.adapters.trl import CuratedStep
from geoalign.lab.store.rollouts import write_details, write_rollouts
from geoalign.lab.store.run_folder import RunFolder
from geoalign.types import Curation, CurationDetails, Rollouts


class Recorder:
    """Writes each curated step into a run folder; `rollouts` False: the details only."""

    def __init__(self, folder: RunFolder, *, rollouts: bool = True) -> None:
        self.folder = folder
        self.rollouts = rollouts

    def __call__(self, curated: CuratedStep) -> None:
        """Writes one step; every file is whole or absent."""
        step = curated.step
        if self.rollouts:
            write_rollouts(self.folder.rollouts_of(step), rollout_columns(curated))
        if curated.curation.details is not None:
            write_details(self.folder.details_of(step), *detail_arrays(curated.curation.details))


def rollout_columns(curated: CuratedStep) -> dict[str, Any]:
    """The rollouts of one step in the columns of `ROLLOUT_SCHEMA`; null where a value is unknown or NaN."""
    rollouts, curation = curated.rollouts, curated.curation
    rows = len(rollouts)
    source, weight = placement(curation, rows)
    unknown = [None] * rows
    return {
        "step": [curated.step] * rows,
        "row": list(range(rows)),
        "group": rollouts.groups.tolist(),
        "sample": samples(rollouts.groups),
        "prompt": [_text(prompt) for prompt in curated.prompts],
        "response": [_text(response) for response in curated.responses],
        "reward": _nullable(rollouts.rewards),
        "true_reward": unknown if rollouts.true_rewards is None else _nullable(rollouts.true_rewards),
        "corrupted": unknown if rollouts.true_rewards is None else _corrupted(rollouts),
        "score": _nullable(curation.scores),
        "anomalous": curation.anomalous.tolist(),
        "source": source,
        "weight": weight,
        "tokens": torch.as_tensor(curated.lengths if rollouts.lengths is None else rollouts.lengths).tolist(),
    }


def _corrupted(rollouts: Rollouts) -> list[bool]:
    """Which rewards differ from what they were before corruption; a row that could not be scored is not corrupted."""
    assert rollouts.true_rewards is not None
    differs = rollouts.rewards != rollouts.true_rewards.to(rollouts.rewards.dtype)
    known: list[bool] = (differs & ~rollouts.rewards.isnan() & ~rollouts.true_rewards.isnan()).tolist()
    return known


def placement(curation: Curation, rows: int) -> tuple[list[int], list[float]]:
    """The source of each of the input's rows, and its weight.

    A curation of another length than its input names the rows it keeps: such a row is its own source, with the sum
    of its weights; one it leaves out has source -1 and weight 0.
    """
    source, weights = curation.source.tolist(), curation.weights.tolist()
    if len(source) == rows:
        return source, weights
    kept = dict.fromkeys(source, 0.0)
    for row, weight in zip(source, weights, strict=True):
        kept[row] += weight
    return [row if row in kept else -1 for row in range(rows)], [kept.get(row, 0.0) for row in range(rows)]


def samples(groups: Tensor) -> list[int]:
    """The index of each row within its group, in the order of the rows."""
    seen: dict[int, int] = {}
    indices = []
    for group in groups.tolist():
        indices.append(seen.get(group, 0))
        seen[group] = indices[-1] + 1
    return indices


def detail_arrays(details: CurationDetails) -> tuple[dict[str, Any], dict[str, float] | None]:
    """Pairs, density and plane coordinates as arrays, and the numbers of the density."""
    pairs, density = details.pairs, details.density
    tensors = {
        "pairs.winner": pairs.winner,
        "pairs.loser": pairs.loser,
        "pairs.margin": pairs.margin,
        "pairs.deviation": pairs.deviation,
        "pairs.raw_cosine": pairs.raw_cosine,
        "pairs.projected_cosine": pairs.projected_cosine,
        "plane_pairs": details.plane_pairs,
        "raw_plane": details.raw_plane,
        "projected_plane": details.projected_plane,
    }
    if density is not None:
        tensors |= {"density.grid": density.grid, "density.density": density.density}
    arrays = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}
    if density is None:
        return arrays, None
    return arrays, {name: float(getattr(density, name)) for name in ("peak", "mode", "alpha", "threshold")}


def _nullable(values: Tensor) -> list[float | None]:
    numbers = values.to(torch.float64).tolist()
    return [None if math.isnan(number) else number for number in numbers]


def _text(value: Any) -> str:
    # A lone surrogate, which a tokenizer can decode to, is no valid UTF-8 and would make the whole file unwritable.
    return str(value).encode("utf-8", "replace").decode("utf-8")
