"""The curator's columns of ms-swift's completions table."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from torch import Tensor

from geoalign.types import Curation

COLUMNS = ("score", "anomalous", "source")


def log_columns(trainer: Any, curation: Curation, source: Tensor) -> None:
    """Adds score, anomalous and source of all processes' rows to the completions table."""
    _extend(trainer, curation.scores.tolist(), curation.anomalous.tolist(), source.tolist())


def log_uncurated_columns(trainer: Any, *, count: int) -> None:
    """The same columns for rows that nobody curates (evaluation), so that the table's columns stay aligned."""
    _extend(trainer, [math.nan] * count, [False] * count, list(range(count)))


def _extend(trainer: Any, *values: list[Any]) -> None:
    for column, entries in zip(COLUMNS, values, strict=True):
        # As long as ms-swift's own columns.
        trainer._logs.setdefault(column, deque(maxlen=trainer.args.generation_batch_size)).extend(entries)
