"""The folder that an audit writes: all of it under temporary names first, then moved, the summary last."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pyarrow.compute
import pyarrow.parquet

from geoalign.dumps.flagged_csv import _FACTS, _FLAGGED_TEXTS, _LABELS, safe
from geoalign.errors import ConfigError
from geoalign.files.durable import LOCK, sync_folder, sync_tree

SCORES_FILE, PAIRS_FILE, DENSITIES_FILE = "scores.parquet", "pairs.parquet", "densities.parquet"
FLAGGED_FILE, FILTERED_FILE = "flagged.csv", "filtered.jsonl"
REPORT_FILE, SUMMARY_FILE = "report.html", "summary.json"
FIGURES, STATES, _PARTIAL = "figures", "states", ".partial"
# In the order in which they appear; with the summary the folder is complete.
_CONTENT = (SCORES_FILE, PAIRS_FILE, DENSITIES_FILE, FLAGGED_FILE, FILTERED_FILE, FIGURES, REPORT_FILE, SUMMARY_FILE)
_KNOWN = {*_CONTENT, STATES, LOCK, _PARTIAL}

ROWS_AT_ONCE = 20_000
# Columns of `scores.parquet` that hold texts: absent from a redacted folder.
TEXTS = ("prompt", "response")

_KINDS = {"int": pyarrow.int64(), "float": pyarrow.float64(), "bool": pyarrow.bool_(), "text": pyarrow.string()}


def _schema(*columns: tuple[str, str]) -> pyarrow.Schema:
    """Columns by their names and type; with a `?` their values may be null."""
    kinds = [(name, kind) for names, kind in columns for name in names.split()]
    return pyarrow.schema([pyarrow.field(n, _KINDS[kind.rstrip("?")], nullable="?" in kind) for n, kind in kinds])


# One row per rollout of all dumps, in the order of the input.
SCORES = _schema(
    ("index step", "int"),  # 0, 1, ... over everything; the number of the dump, or the step that the dump names
    ("file", "text"),
    ("row line sample", "int"),  # row from 0 (the prompt's), line from 1 (or row of a parquet file), response from 0
    ("id", "text"),
    ("group", "int"),
    ("prompt response", "text"),
    ("answer", "text?"),
    ("reward true_reward", "float?"),  # null: could not be scored; not known
    ("correct trained_on", "bool?"),  # only where the input says so
    ("characters", "int"),
    ("tokens", "int?"),
    ("truncated", "bool?"),
    ("score", "float?"),
    ("anomalous", "bool"),
    ("source", "int"),  # `index` of the row whose content is here afterwards; -1: left out
    ("weight", "float"),
    ("new_reward advantage", "float?"),  # the advantage is the curator's own
    ("final_answer compared_answer", "text?"),  # that the response gives, as it is spelt; one text for equal answers
    ("by_spelling", "text?"),  # "gold", "not gold" or "no gold": the verdicts on the answer go with its spelling
    ("probability_wrong denoised_reward", "float?"),
    ("trusted", "bool?"),  # whether a person's label is the reward
    ("group_size", "int"),
    ("group_mean group_std", "float?"),
    ("group_pairs group_flagged", "int"),
)

# The pairs of the groups with a flagged rollout, and of others up to a number per step that `summary.json` states;
# `better` and `worse` are each an `index`.
PAIRS = _schema(("step group better worse", "int"), ("deviation raw_cosine projected_cosine", "float"))

# The density of each step's scores on its grid; `threshold` is the lowest anomalous score.
DENSITIES = _schema(("step", "int"), ("score density", "float"), ("threshold", "float?"), ("peak", "float"))


def scores_schema(redacted: bool) -> pyarrow.Schema:
    """The columns of `scores.parquet`, without the texts in a redacted folder."""
    return pyarrow.schema([column for column in SCORES if not (redacted and column.name in TEXTS)])


class AuditFolder:
    """Paths of one output folder; files are written in `staging` before they are whole; `states`, the cache of hidden
    states, outlives a stop and a later call."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        # Under the folder's own name, which the page has as its title.
        self.staging = self.root / _PARTIAL / (self.root.resolve().name or "curated")
        self.states = self.root / STATES
        self.summary = self.root / SUMMARY_FILE

    def started(self) -> bool:
        """Whether an audit lies here: a finished one has scores, one that works or was stopped its partial folder."""
        return (self.root / SCORES_FILE).is_file() or (self.root / _PARTIAL).is_dir()

    def finished(self) -> bool:
        """The summary comes last; while another audit replaces it, the folder is not finished."""
        return self.summary.is_file() and not (self.root / _PARTIAL).is_dir()

    def check(self, inputs: Sequence[Path], *, overwrite: bool) -> None:
        """Raises ConfigError where something else lies there, a finished audit does, or an input would be lost."""
        if self.root.exists() and not self.root.is_dir():
            raise ConfigError(f"--output {self.root}: expected a folder, got a file")
        for path in inputs:
            if path.resolve().is_relative_to(self.root.resolve()):
                raise ConfigError(f"--output {self.root}: expected a folder without the inputs, got {path} inside it")
        names = sorted(item.name for item in self.root.iterdir()) if self.root.is_dir() else []
        ours = _KNOWN if {SUMMARY_FILE, _PARTIAL} & {*names} else {STATES, LOCK}
        others = [name for name in names if name not in ours]
        if others:
            raise ConfigError(f"--output {self.root}: expected a new folder or an earlier audit, got {others[0]} in it")
        if SUMMARY_FILE in names and not overwrite:
            raise ConfigError(
                f"--output {self.root}: expected a new folder, got a finished audit: --overwrite replaces it"
            )

    def start(self) -> None:
        self.discard()
        self.staging.mkdir(parents=True)

    def publish(self) -> None:
        """Brings what was written to the disk and moves it into the folder; what an earlier call left there goes."""
        sync_tree(self.staging)
        # The summary goes first and comes last: with it a folder is complete, at any moment.
        for name in (SUMMARY_FILE, *_CONTENT):
            path = self.root / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        for name in _CONTENT:
            if (self.staging / name).exists():
                (self.staging / name).replace(self.root / name)
        self.discard()
        sync_folder(self.root)

    def discard(self) -> None:
        shutil.rmtree(self.root / _PARTIAL, ignore_errors=True)


class AuditTables(ExitStack):
    """Writes the tables into a folder, where they are whole after the `with` block; one without rows has no file.

    `flagged.csv` is UTF-8 with a byte-order mark, by which spreadsheets know it; no cell of it is ever a formula.
    """

    def __init__(self, folder: Path, *, redact: bool) -> None:
        super().__init__()
        self._folder, self._redact = folder, redact
        self._writers: dict[str, pyarrow.parquet.ParquetWriter] = {}
        self._flagged = self.enter_context((folder / FLAGGED_FILE).open("w", encoding="utf-8-sig", newline=""))
        self._names = [*_FACTS, *(() if redact else _FLAGGED_TEXTS), *_LABELS]
        csv.writer(self._flagged).writerow(self._names)

    def add_scores(self, frame: pandas.DataFrame) -> None:
        """Writes the rollouts of one file, the columns of SCORES, and those flagged among them (with the text of their
        `replacement`), the most suspicious of each step first."""
        whole = frame.assign(answer=None, final_answer=None, compared_answer=None) if self._redact else frame
        schema = scores_schema(self._redact)
        # Some rows at a time: a copy of all texts may be too large for the memory.
        for start in range(0, len(whole), ROWS_AT_ONCE):
            rows = whole.iloc[start : start + ROWS_AT_ONCE]
            table = pyarrow.Table.from_pandas(rows, schema=schema, preserve_index=False)
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
        if columns:
            self._write(PAIRS_FILE, pyarrow.table(columns, schema=PAIRS))

    def add_density(self, columns: Mapping[str, Any]) -> None:
        if columns:
            self._write(DENSITIES_FILE, pyarrow.table(columns, schema=DENSITIES))

    def _write(self, name: str, table: pyarrow.Table) -> None:
        if name not in self._writers:
            writer = pyarrow.parquet.ParquetWriter(self._folder / name, table.schema, compression="zstd")
            self._writers[name] = self.enter_context(writer)
        self._writers[name].write_table(table)
