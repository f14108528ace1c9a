"""Keeps what the curator saw and decided: one parquet file of rollouts per generation, now and then its details."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from itertools import count
from typing import Any

import torch
from torch import Tensor

from geoalign.adapters.trl import CuratedStep
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.runs.rollouts import write_details, write_rollouts
from geoalign.types import Curation, CurationDetails


def record(folder: RunFolder, curated: CuratedStep, *, rollouts: bool = True) -> None:
    """Writes one step into a run folder, every file whole or absent; `rollouts` False: the details only."""
    if rollouts:
        write_rollouts(folder.rollouts_of(curated.step), rollout_columns(curated))
    if curated.curation.details is not None:
        write_details(folder.details_of(curated.step), *_detail_arrays(curated.curation.details))


def rollout_columns(curated: CuratedStep) -> dict[str, Any]:
    """The rollouts of one step in the columns of `ROLLOUT_SCHEMA`; null where a value is unknown or NaN."""
    rollouts, curation = curated.rollouts, curated.curation
    rows, rewards, true = len(rollouts), rollouts.rewards, rollouts.true_rewards
    source, weight = assignment(curation, rows)
    groups = rollouts.groups.tolist()
    earlier: defaultdict[int, Iterator[int]] = defaultdict(count)
    true_reward, corrupted = [None] * rows, [None] * rows
    if true is not None:
        true_reward = _nullable(true)
        # A row that could not be scored is not corrupted.
        corrupted = ((rewards != true.to(rewards.dtype)) & ~rewards.isnan() & ~true.isnan()).tolist()
    return {
        "step": [curated.step] * rows,
        "row": list(range(rows)),
        "group": groups,
        "sample": [next(earlier[group]) for group in groups],
        "prompt": [_text(prompt) for prompt in curated.prompts],
        "response": [_text(response) for response in curated.responses],
        "reward": _nullable(rewards),
        "true_reward": true_reward,
        "corrupted": corrupted,
        "score": _nullable(curation.scores),
        "anomalous": curation.anomalous.tolist(),
        "source": source,
        "weight": weight,
        "tokens": torch.as_tensor(curated.lengths if rollouts.lengths is None else rollouts.lengths).tolist(),
    }


def assignment(curation: Curation, rows: int) -> tuple[list[int], list[float]]:
    """The source of each of the input's rows, and its weight; of a curation of another length -1 and 0 for rows left
    out, and for one that is kept the sum of its weights.
    """
    source, weights = curation.source.tolist(), curation.weights.tolist()
    if len(source) == rows:
        return source, weights
    kept = dict.fromkeys(source, 0.0)
    for row, weight in zip(source, weights, strict=True):
        kept[row] += weight
    return [row if row in kept else -1 for row in range(rows)], [kept.get(row, 0.0) for row in range(rows)]


def _detail_arrays(details: CurationDetails) -> tuple[dict[str, Any], dict[str, float] | None]:
    """Pairs and density as arrays, and the numbers of the density."""
    pairs, density = details.pairs, details.density
    tensors = {f"pairs.{item.name}": getattr(pairs, item.name) for item in fields(pairs)}
    numbers = None
    if density is not None:
        tensors |= {"density.grid": density.grid, "density.density": density.density}
        numbers = {name: float(getattr(density, name)) for name in ("peak", "mode", "alpha", "threshold")}
    return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}, numbers


def _nullable(values: Tensor) -> list[Any]:
    return [None if math.isnan(number) else number for number in values.to(torch.float64).tolist()]


def _text(value: Any) -> str:
    # A lone surrogate, which a tokenizer can decode to, is no valid UTF-8 and would make the whole file unwritable.
    return str(value).encode("utf-8", "replace").decode("utf-8")
