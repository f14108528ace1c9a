"""TRL's own logs around a curation: raw rewards stay what `reward` says, curator columns join the completions table."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import torch
from torch import Tensor

from geoalign.adapters.step import named
from geoalign.adapters.trl.advantages import total_rewards
from geoalign.types import Curation

# The curator's columns of the completions table.
COLUMNS = ("score", "anomalous", "source")


def log_columns(trainer: Any, curation: Curation, source: Tensor, *, first: int, count: int) -> None:
    """Adds this process's rows `first` to `first + count` of score, anomalous and source to the completions table."""
    rows = slice(first, first + count)
    values = (curation.scores[rows].tolist(), curation.anomalous[rows].tolist(), source[rows].tolist())
    for column, entries in zip(COLUMNS, values, strict=True):
        trainer._log_completion_extra(column, entries)


def log_uncurated_columns(trainer: Any, *, first: int, count: int) -> None:
    """The same columns for rows that nobody curates (evaluation), so that the table's columns stay aligned."""
    values: tuple[list[Any], ...] = ([math.nan] * count, [False] * count, list(range(first, first + count)))
    for column, entries in zip(COLUMNS, values, strict=True):
        trainer._log_completion_extra(column, entries)


def log_metrics(trainer: Any, metrics: dict[str, float]) -> None:
    """Adds metrics as `geoalign/<name>` to the training log, leaving NaN out."""
    for name, value in named(metrics).items():
        trainer._metrics["train"][name].append(value)


def restore_raw_rewards(trainer: Any, per_function: Tensor) -> None:
    """Writes the raw rewards [B, F] over the curated ones in the entries that TRL just logged."""
    metrics, logs = trainer._metrics["train"], trainer._logs
    # Functions may share a name (two lambdas): TRL then logs one entry each, and shows the last in its table.
    entries = Counter[str]()
    for column, name in reversed(list(zip(per_function.unbind(1), trainer.reward_func_names, strict=True))):
        entries[name] += 1
        metrics[f"rewards/{name}/mean"][-entries[name]] = torch.nanmean(column).item()
        metrics[f"rewards/{name}/std"][-entries[name]] = _deviation(column)
        if entries[name] == 1:
            _overwrite_tail(logs["rewards"][name], column.tolist())
    total = total_rewards(per_function, trainer.reward_weights)
    metrics["reward"][-1] = torch.nanmean(total).item()
    metrics["reward_std"][-1] = _deviation(total)


def overwrite_advantages(trainer: Any, advantages: Tensor) -> None:
    """Writes the advantages [B] that enter the loss, all processes', over those that TRL just logged."""
    _overwrite_tail(trainer._logs["advantages"], advantages.tolist())


def _deviation(values: Tensor) -> float:
    present = values[~values.isnan()]
    return present.std().item() if len(present) > 1 else math.nan


def _overwrite_tail(entries: Any, values: list[float]) -> None:
    for _ in range(min(len(entries), len(values))):
        entries.pop()
    entries.extend(values)
