"""The folder that an audit writes: all of it under temporary names first, then moved, the summary last."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet

from geoalign.audit.suspicion import COLUMNS_OF_SUSPICION, by_suspicion
from geoalign.dumps.flagged_csv import _FACTS, _FLAGGED_TEXTS, _LABELS, safe
from geoalign.errors import ConfigError
from geoalign.files.durable import LOCK, sync_folder, sync_tree

SCORES_FILE = "scores.parquet"
PAIRS_FILE = "pairs.parquet"
DENSITIES_FILE = "densities.parquet"
VERDICTS_FILE = "verdicts.parquet"
FLAGGED_FILE = "flagged.csv"
CHECKS_FILE = "checks.csv"
FILTERED_FILE = "filtered.jsonl"
GOLDS_FILE = "golds.csv"
FIGURES = "figures"
REPORT_FILE = "report.html"
SUMMARY_FILE = "summary.json"
# In the order in which they appear; with the summary the folder is complete.
_CONTENT = (
    SCORES_FILE,
    PAIRS_FILE,
    DENSITIES_FILE,
    VERDICTS_FILE,
    FLAGGED_FILE,
    CHECKS_FILE,
    FILTERED_FILE,
    GOLDS_FILE,
    FIGURES,
    REPORT_FILE,
    SUMMARY_FILE,
)
_STATES = "states"
_PARTIAL = ".partial"

ROWS_AT_ONCE = 20_000
# Columns of `scores.parquet` that hold texts: absent from a redacted folder.
TEXTS = ("prompt", "response")

_TYPES = {
    "int": pyarrow.int64(),
    "float": pyarrow.float64(),
    "bool": pyarrow.bool_(),
    "text": pyarrow.string(),
    "texts": pyarrow.list_(pyarrow.string()),
}


def _schema(*columns: tuple[str, str]) -> pyarrow.Schema:
    """A table's columns: pairs of names, parted by spaces, and their type; with a `?` their values may be null."""
    fields = []
    for names, kind in columns:
        for name in names.split():
            fields.append(pyarrow.field(name, _TYPES[kind.removesuffix("?")], nullable=kind.endswith("?")))
    return pyarrow.schema(fields)


# One row per rollout of all dumps, in the order of the input.
SCORES = _schema(
    ("index step", "int"),  # 0, 1, ... over everything; the number of the dump, or the step that the dump names
    ("file", "text"),
    ("row line sample", "int"),  # row from 0 (the prompt's), line from 1 (or row of a parquet file), response from 0
    ("id", "text"),
    ("group", "int"),
    ("prompt response", "text"),
    ("answer", "text?"),
    ("gold_answers", "texts?"),  # each answer that the file says is right
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
    ("exclusive", "bool?"),  # whether at most one answer to the prompt is right
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
        self.states = self.root / _STATES
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
        ours = {_STATES, LOCK}
        if SUMMARY_FILE in names or _PARTIAL in names:
            ours |= {*_CONTENT, _PARTIAL}
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

    `flagged.csv` is UTF-8 with a byte-order mark, by which spreadsheets know it; no cell of it is ever a formula. Its
    rows are written last, by `write_flagged`.
    """

    def __init__(self, folder: Path, *, redact: bool, filtered: bool = False) -> None:
        """Opens the tables in `folder`, without texts under `redact`, with filtered.jsonl under `filtered`."""
        super().__init__()
        self._folder = folder
        self._redact = redact
        self._writers: dict[str, pyarrow.parquet.ParquetWriter] = {}
        self._flagged_columns = [*_FACTS, *([] if redact else _FLAGGED_TEXTS), *_LABELS]
        # The flagged rows of the files so far: which one comes first is known behind the last file.
        self._flagged: list[pandas.DataFrame] = []
        self._flagged_file = self.enter_context((folder / FLAGGED_FILE).open("w", encoding="utf-8-sig", newline=""))
        self._filtered_file = self.enter_context((folder / FILTERED_FILE).open("wb")) if filtered else None
        csv.writer(self._flagged_file).writerow(self._flagged_columns)

    def add_rows(self, rows: pandas.DataFrame) -> None:
        """Writes the rollouts of one file and those that stay, and keeps those that are flagged.

        Args:
            rows: the columns of SCORES but for `index`, which is that of the frame, and `replacement` and `messages`.
        """
        rows = rows.reset_index(names="index")
        written = rows
        if self._redact:
            written = rows.assign(answer=None, gold_answers=None, final_answer=None, compared_answer=None)
        # Some rows at a time: a copy of all texts may be too large for the memory.
        for start in range(0, len(written), ROWS_AT_ONCE):
            self._write(SCORES_FILE, written.iloc[start : start + ROWS_AT_ONCE], scores_schema(self._redact))
        self._keep_flagged(rows)
        if self._filtered_file is not None:
            self._filtered_file.writelines(_filtered_lines(rows))

    def _keep_flagged(self, rows: pandas.DataFrame) -> None:
        """Keeps the flagged rows of one file, with what `flagged.csv` says of them and what they are sorted by."""
        flagged = rows[rows["anomalous"]]
        if flagged.empty:
            return
        stays = flagged["source"].isin([-1]) | (flagged["source"] == flagged["index"])
        flagged = flagged.assign(
            replaced_by=flagged["source"].astype(object).mask(stays, None),
            correct=flagged["correct"].map({True: "true", False: "false"}),
        )
        kept = dict.fromkeys([*self._flagged_columns, *COLUMNS_OF_SUSPICION])
        # As objects: a column that is empty in one file may hold texts in another.
        self._flagged.append(flagged.reindex(columns=list(kept)).astype(object))

    def write_flagged(self) -> None:
        """Writes the flagged rows of all files, the most suspicious first; to be called behind the last file."""
        if not self._flagged:
            return
        flagged = pandas.concat(self._flagged, ignore_index=True).astype({"anomalous": bool, "score": float})
        self._flagged.clear()
        flagged = by_suspicion(flagged)
        # Some rows at a time: a copy of all texts may be too large for the memory.
        for start in range(0, len(flagged), ROWS_AT_ONCE):
            cells = flagged.iloc[start : start + ROWS_AT_ONCE][self._flagged_columns]
            cells = cells.map(lambda cell: safe(cell) if isinstance(cell, str) else cell)
            cells.to_csv(self._flagged_file, header=False, index=False, lineterminator="\r\n")

    def add_pairs(self, pairs: pandas.DataFrame) -> None:
        """Writes pairs of hidden states, the columns of PAIRS."""
        self._write(PAIRS_FILE, pairs, PAIRS)

    def add_density(self, density: pandas.DataFrame) -> None:
        """Writes the density of a step's scores, the columns of DENSITIES."""
        self._write(DENSITIES_FILE, density, DENSITIES)

    def _write(self, name: str, rows: pandas.DataFrame, schema: pyarrow.Schema) -> None:
        table = pyarrow.Table.from_pandas(rows, schema=schema, preserve_index=False).replace_schema_metadata(None)
        if name not in self._writers:
            writer = pyarrow.parquet.ParquetWriter(self._folder / name, table.schema, compression="zstd")
            self._writers[name] = self.enter_context(writer)
        self._writers[name].write_table(table)


def _filtered_lines(rows: pandas.DataFrame) -> Iterator[bytes]:
    """The rollouts that stay as lines of JSON: each in its place, with the response, reward and weight there."""
    facts = ["file", "line", "sample", "step", "group", "id"]
    content = ["prompt", "messages", "response", "replacement", "new_reward", "weight", "advantage"]
    for row in rows.loc[rows["source"] >= 0, [*facts, *content]].to_dict("records"):
        line = {name: row[name] for name in facts}
        line["prompt"] = row["messages"] or row["prompt"]
        line["response"] = row["response"] if row["replacement"] is None else row["replacement"]
        line["reward"] = None if np.isnan(row["new_reward"]) else row["new_reward"]
        line["weight"] = row["weight"]
        if not np.isnan(row["advantage"]):
            line["advantage"] = row["advantage"]
        yield json.dumps(line).encode("ascii") + b"\n"
