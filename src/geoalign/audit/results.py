"""What an audit found, read back from its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas
import pyarrow.parquet

from geoalign.audit.folder import DENSITIES, DENSITIES_FILE, PAIRS, PAIRS_FILE, SCORES, SCORES_FILE, SUMMARY_FILE, TEXTS
from geoalign.files.columns import read_columns
from geoalign.files.json_files import read_json

# Truth values and numbers that may lack: NaN where they do.
NUMBERS = (
    "reward", "true_reward", "correct", "truncated", "tokens", "score", "weight", "new_reward", "probability_wrong",
    "denoised_reward",
)  # fmt: skip


# Columns that folders of earlier versions lack: there `final_answer` was one text for equal answers.
_NEWER = ("compared_answer", "by_spelling")


@dataclass(frozen=True, eq=False)
class AuditResults:
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
        curator: Mapping[str, Any] = self.summary["curator"]
        return curator

    def texts(self, rows: Sequence[int]) -> dict[int, tuple[str, str]]:
        """Prompt and response of some rollouts, by their index; empty where texts were left out."""
        if self.redacted or not len(rows):
            return {}
        wanted = pyarrow.compute.field("index").isin(list(rows))
        table = pyarrow.parquet.read_table(self.folder / SCORES_FILE, columns=["index", *TEXTS], filters=wanted)
        index, prompts, responses = (table[name].to_pylist() for name in ("index", *TEXTS))
        return dict(zip(index, zip(prompts, responses, strict=True), strict=True))


def read_audit(folder: Path) -> AuditResults:
    """Reads the tables and the summary; prompts and responses stay in their file."""
    folder = Path(folder)
    path = folder / SCORES_FILE
    present = set(pyarrow.parquet.read_schema(path).names)
    wanted = [name for name in SCORES.names if name not in TEXTS]
    older = [name for name in _NEWER if name not in present]
    scored = read_columns(path, [name for name in wanted if name not in older]).to_pandas()
    for name in older:
        scored[name] = scored["final_answer"] if name == "compared_answer" else None
    redacted = not set(TEXTS) & present
    scored = scored.astype(dict.fromkeys(NUMBERS, "float64")).assign(
        group=scored.groupby(["step", "group"], sort=False).ngroup(), group_id=scored["group"]
    )
    return AuditResults(
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
