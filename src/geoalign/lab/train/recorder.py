"""Keeps what the curator saw and decided: one parquet file of rollouts per generation, now and then its details."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import fields
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
    details = curated.curation.details
    if details is not None:
        write_details(folder.details_of(curated.step), _arrays_of(details), _numbers_of_density(details))


def rollout_columns(curated: CuratedStep) -> dict[str, Any]:
    """The rollouts of one step in the columns of `ROLLOUT_SCHEMA`; null where a value is unknown or NaN."""
    rollouts = curated.rollouts
    curation = curated.curation
    rows = len(rollouts)
    source, weight = assignment(curation, rows)
    groups = rollouts.groups.tolist()
    true_reward, corrupted = _truth(rollouts.rewards, rollouts.true_rewards)
    lengths = curated.lengths if rollouts.lengths is None else rollouts.lengths
    return {
        "step": [curated.step] * rows,
        "row": list(range(rows)),
        "group": groups,
        "sample": _numbers_in_groups(groups),
        "prompt": [_valid_text(prompt) for prompt in curated.prompts],
        "response": [_valid_text(response) for response in curated.responses],
        "reward": _nullable(rollouts.rewards),
        "true_reward": true_reward,
        "corrupted": corrupted,
        "score": _nullable(curation.scores),
        "anomalous": curation.anomalous.tolist(),
        "source": source,
        "weight": weight,
        "tokens": torch.as_tensor(lengths).tolist(),
    }


def _truth(rewards: Tensor, true_rewards: Tensor | None) -> tuple[list[float | None], list[bool | None]]:
    """The true reward of each row, and whether its reward differs; None of all rows where the truth is unknown.

    A row that could not be scored is not corrupted.
    """
    if true_rewards is None:
        unknown: list[None] = [None] * len(rewards)
        return [*unknown], [*unknown]
    both_known = ~rewards.isnan() & ~true_rewards.isnan()
    corrupted = (rewards != true_rewards.to(rewards.dtype)) & both_known
    return _nullable(true_rewards), corrupted.tolist()


def _numbers_in_groups(groups: Sequence[int]) -> list[int]:
    """The number of each row among the rows of its group, from 0 on."""
    seen: defaultdict[int, int] = defaultdict(int)
    numbers = []
    for group in groups:
        numbers.append(seen[group])
        seen[group] += 1
    return numbers


def assignment(curation: Curation, rows: int) -> tuple[list[int], list[float]]:
    """The source of each of the input's rows, and its weight; of a curation of another length -1 and 0 for rows left
    out, and for one that is kept the sum of its weights.
    """
    source = curation.source.tolist()
    weights = curation.weights.tolist()
    if len(source) == rows:
        return source, weights
    weight_of = dict.fromkeys(source, 0.0)
    for row, weight in zip(source, weights, strict=True):
        weight_of[row] += weight
    own_source = [row if row in weight_of else -1 for row in range(rows)]
    summed_weights = [weight_of.get(row, 0.0) for row in range(rows)]
    return own_source, summed_weights


def _arrays_of(details: CurationDetails) -> dict[str, Any]:
    """Pairs and density as arrays, by the names that they have in the file."""
    tensors = {f"pairs.{item.name}": getattr(details.pairs, item.name) for item in fields(details.pairs)}
    if details.density is not None:
        tensors["density.grid"] = details.density.grid
        tensors["density.density"] = details.density.density
    return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}


def _numbers_of_density(details: CurationDetails) -> dict[str, float] | None:
    density = details.density
    if density is None:
        return None
    return {name: float(getattr(density, name)) for name in ("peak", "mode", "alpha", "threshold")}


def _nullable(values: Tensor) -> list[float | None]:
    return [None if math.isnan(number) else number for number in values.to(torch.float64).tolist()]


def _valid_text(value: Any) -> str:
    # A lone surrogate, which a tokenizer can decode to, is no valid UTF-8 and would make the whole file unwritable.
    return str(value).encode("utf-8", "replace").decode("utf-8")
