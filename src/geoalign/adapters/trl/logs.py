"""TRL's own logs around a curation: the curator's columns join the completions table."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from geoalign.types import Curation

# The curator's columns of the completions table, of TRL's and of ms-swift's.
COLUMNS = ("score", "anomalous", "source")


def columns(curation: Curation | None, source: Tensor) -> dict[str, list[Any]]:
    """The values of `COLUMNS` for all rows; None: nobody curates (evaluation), and the columns stay aligned."""
    if curation is None:
        return dict(zip(COLUMNS, ([math.nan] * len(source), [False] * len(source), source.tolist()), strict=True))
    values = (curation.scores.tolist(), curation.anomalous.tolist(), source.tolist())
    return dict(zip(COLUMNS, values, strict=True))


def overwrite_advantages(trainer: Any, advantages: Tensor) -> None:
    """Writes the advantages [B] that enter the loss, all processes', over those that TRL just logged."""
    entries, values = trainer._logs["advantages"], advantages.tolist()
    for _ in range(min(len(entries), len(values))):
        entries.pop()
    entries.extend(values)
