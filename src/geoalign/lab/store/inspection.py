"""Reading what `geoalign audit` left in a folder: every rollout's facts as a frame, its texts left in the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pyarrow.parquet

from geoalign.lab.store.columns import read_columns
from geoalign.lab.store.curation import (
    DENSITIES,
    DENSITIES_FILE,
    PAIRS,
    PAIRS_FILE,
    SCORES,
    SCORES_FILE,
    SUMMARY_FILE,
    TEXTS,
)
from geoalign.lab.store.json_files import read_json

# Truth values and numbers that may lack: NaN where they do.
_NUMBERS = (
    "reward", "true_reward", "correct", "truncated", "tokens", "score", "weight", "new_reward", "probability_wrong",
    "denoised_reward",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Inspection:
    """A folder of `geoalign audit`.

    Attributes:
        scored: the columns of SCORES but for the texts, in the order of the input. `group` counts the groups of all
            steps by first appearance, `group_id` is the table's own; `correct` and `truncated` are 1, 0 or NaN.
        pairs, densities: the columns of PAIRS and DENSITIES; None for curators that have none.
    """

    folder: Path
    scored: pandas.DataFrame
    pairs: pandas.DataFrame | None
    densities: pandas.DataFrame | None
    redacted: bool
    summary: Mapping[str, Any]

    @property
    def curator(self) -> Mapping[str, Any]:
        """The settings of the curator."""
        curator: Mapping[str, Any] = self.summary["curator"]
        return curator


def read_inspection(folder: Path) -> Inspection:
    """Reads the tables and the summary; prompts and responses stay in their file."""
    folder = Path(folder)
    path = folder / SCORES_FILE
    scored = read_columns(path, [name for name in SCORES.names if name not in TEXTS]).to_pandas()
    redacted = not set(TEXTS) & set(pyarrow.parquet.read_schema(path).names)
    scored = scored.astype(dict.fromkeys(_NUMBERS, "float64")).assign(
        group=scored.groupby(["step", "group"], sort=False).ngroup(), group_id=scored["group"]
    )
    return Inspection(
        folder=folder,
        scored=scored,
        pairs=_table(folder / PAIRS_FILE, PAIRS),
        densities=_table(folder / DENSITIES_FILE, DENSITIES),
        redacted=redacted,
        summary=read_json(folder / SUMMARY_FILE),
    )


def _table(path: Path, schema: pyarrow.Schema) -> pandas.DataFrame | None:
    if not path.is_file():
        return None
    table: pandas.DataFrame = read_columns(path, schema.names).to_pandas()
    return table
