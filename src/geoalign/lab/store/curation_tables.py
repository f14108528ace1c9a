"""Writing the tables of a curated folder as files come: scores, pairs, densities, and what was flagged as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

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
    TEXTS,
    scores_schema,
)

# Rows of scores that are turned into columns at a time.
_ROWS = 4096
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
        file = self._open.enter_context((folder / FLAGGED_FILE).open("w", encoding="utf-8-sig", newline=""))
        names = (*_FACTS, *(() if redact else _FLAGGED_TEXTS), *_LABELS)
        self._flagged = csv.DictWriter(file, names, restval="", extrasaction="ignore")
        self._flagged.writeheader()

    def __enter__(self) -> CurationTables:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def add_scores(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Writes the rollouts of one file, and those flagged among them, the most suspicious of each step first.

        Args:
            rows: the columns of SCORES, and for `flagged.csv` the `line` in the file and the `replacement` text.
        """
        flagged: list[Mapping[str, Any]] = []
        steps: dict[int, int] = {}
        remaining = iter(rows)
        while part := list(islice(remaining, _ROWS)):
            whole = [_whole(row, self._redact) for row in part]
            self._write(SCORES_FILE, pyarrow.Table.from_pylist(whole, schema=scores_schema(self._redact)))
            for row in part:
                steps.setdefault(row["step"], len(steps))
                flagged += [row] if row["anomalous"] else []
        # Those that a curator flags without a score come last.
        flagged.sort(key=lambda row: (steps[row["step"]], row["score"] is None, -(row["score"] or 0.0)))
        self._flagged.writerows(_cells(row) for row in flagged)

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


def _whole(row: Mapping[str, Any], redact: bool) -> dict[str, Any]:
    hidden = {"answer", "final_answer", *TEXTS} if redact else set()
    return {
        name: None if name in hidden else whole_text(value) if isinstance(value, str) else value
        for name, value in row.items()
    }


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    replaced_by = row["source"] if row["source"] not in (-1, row["index"]) else None
    correct = None if row["correct"] is None else str(row["correct"]).lower()
    cells = {**row, "replaced_by": replaced_by, "correct": correct}
    return {name: safe(cell) if isinstance(cell, str) else cell for name, cell in cells.items()}


def safe(text: str) -> str:
    """A text as a cell that no spreadsheet takes for a formula, without control characters, of bounded length.

    What could be read as a formula begins with an apostrophe; control characters become U+FFFD; of a text longer than
    32,000 characters the end of the cell says that it is cut.
    """
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]} ... ({len(text):,} characters)"
    clean = "".join(
        letter if letter in "\n\t" or not (ord(letter) < 32 or 127 <= ord(letter) < 160) else "\ufffd"
        for letter in whole_text(text).replace("\r\n", "\n").replace("\r", "\n")
    )
    return f"'{clean}" if _risky(clean) else clean


def restored(cell: str) -> str | None:
    """The text that `safe` made this cell of, but for control characters; None where the cell holds only part of it."""
    if len(cell) > LONGEST + 1:
        return None
    return cell[1:] if cell[:1] == "'" and _risky(cell[1:]) else cell


def _risky(text: str) -> bool:
    return text.lstrip().startswith(_FORMULA) or text[:1] in ("\t", "\n")
