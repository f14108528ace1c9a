"""Writing the tables of a curated folder as files come: scores, pairs, densities, and what was flagged as CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import pandas
import pyarrow
import pyarrow.parquet

from geoalign.lab.store.columns import whole_text
from geoalign.lab.store.curation import (
    DENSITIES,
    DENSITIES_FILE,
    FLAGGED_FILE,
    PAIRS,
    PAIRS_FILE,
    SCORES_FILE,
    scores_schema,
)

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What a spreadsheet takes for the beginning of a formula, behind blanks too; the wide forms as well.
_FORMULA = tuple("=+-@＝＋－＠")
# A cell of Excel holds 32,767 characters.
LONGEST = 32_000
# The columns of `flagged.csv`; people who label fill in the last two. `ROW` says which rollout a row is.
ROW, LABEL = ("step", "line", "sample"), "label"
_FACTS = (
    "index", "step", "file", "line", "sample", "id", "group", "score", "reward", "new_reward", "true_reward", "correct",
    "probability_wrong", "denoised_reward", "group_mean", "group_size", "replaced_by",
    "characters",
)  # fmt: skip
_FLAGGED_TEXTS = ("answer", "final_answer", "prompt", "response", "replacement")
_LABELS = (LABEL, "note")


class CurationTables:
    """Writes the tables into a folder; a table without rows has no file, except the scores.

    `flagged.csv` is UTF-8 with a byte-order mark, by which spreadsheets know it; no cell of it is ever a formula.

    Args:
        folder: where; files there are not to be looked at before the end of the `with` block.
        redact: leave prompts, responses and answers out.
    """

    def __init__(self, folder: Path, *, redact: bool) -> None:
        self._folder, self._redact = folder, redact
        self._open = ExitStack()
        self._writers: dict[str, pyarrow.parquet.ParquetWriter] = {}
        self._flagged = self._open.enter_context((folder / FLAGGED_FILE).open("w", encoding="utf-8-sig", newline=""))
        self._names = [*_FACTS, *(() if redact else _FLAGGED_TEXTS), *_LABELS]
        csv.writer(self._flagged).writerow(self._names)

    def __enter__(self) -> CurationTables:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def add_scores(self, frame: pandas.DataFrame) -> None:
        """Writes the rollouts of one file, and those flagged among them, the most suspicious of each step first.

        Args:
            frame: the columns of SCORES, and for `flagged.csv` the `line` in the file and the `replacement` text;
                missing values are None or NaN.
        """
        whole = frame.assign(answer=None, final_answer=None) if self._redact else frame
        schema = scores_schema(self._redact)
        table = pyarrow.Table.from_pandas(whole, schema=schema, preserve_index=False)
        self._write(SCORES_FILE, table.replace_schema_metadata(None))
        flagged = frame[frame["anomalous"]]
        own = flagged["source"].isin([-1]) | (flagged["source"] == flagged["index"])
        flagged = flagged.assign(
            place=pandas.factorize(frame["step"])[0][frame["anomalous"]],
            replaced_by=flagged["source"].astype(object).mask(own, None),
            correct=flagged["correct"].map({True: "true", False: "false"}),
        )
        # Those that a curator flags without a score come last.
        flagged = flagged.sort_values(["place", "score"], ascending=[True, False], kind="stable")
        cells = flagged.reindex(columns=self._names).map(lambda cell: safe(cell) if isinstance(cell, str) else cell)
        cells.to_csv(self._flagged, header=False, index=False, lineterminator="\r\n")

    def add_pairs(self, columns: Mapping[str, Any]) -> None:
        """Writes pairs, the columns of PAIRS."""
        self._write(PAIRS_FILE, pyarrow.table(columns, schema=PAIRS))

    def add_density(self, columns: Mapping[str, Any]) -> None:
        """Writes the density of a step's scores, the columns of DENSITIES."""
        self._write(DENSITIES_FILE, pyarrow.table(columns, schema=DENSITIES))

    def _write(self, name: str, table: pyarrow.Table) -> None:
        if name not in self._writers:
            writer = pyarrow.parquet.ParquetWriter(self._folder / name, table.schema, compression="zstd")
            self._writers[name] = self._open.enter_context(writer)
        self._writers[name].write_table(table)


def safe(text: str) -> str:
    """A text as a cell that no spreadsheet takes for a formula, without control characters, of bounded length.

    What could be read as a formula begins with an apostrophe; control characters become U+FFFD; of a text longer than
    32,000 characters the end of the cell says that it is cut.
    """
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]} ... ({len(text):,} characters)"
    clean = _CONTROL.sub("\ufffd", whole_text(text).replace("\r\n", "\n").replace("\r", "\n"))
    return f"'{clean}" if _risky(clean) else clean


def restored(cell: str) -> str | None:
    """The text that `safe` made this cell of, but for control characters; None where the cell holds only part of it."""
    if len(cell) > LONGEST + 1:
        return None
    return cell[1:] if cell[:1] == "'" and _risky(cell[1:]) else cell


def _risky(text: str) -> bool:
    return text.lstrip().startswith(_FORMULA) or text[:1] in ("\t", "\n")
