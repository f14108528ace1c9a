"""Reading what `geoalign curate` left in a folder: every rollout's facts in memory, its texts left in the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from geoalign.errors import RunFolderError
from geoalign.reports.inspection.tables import (
    DENSITIES,
    DENSITIES_FILE,
    PAIRS,
    PAIRS_FILE,
    SCORES,
    SCORES_FILE,
    SUMMARY_FILE,
    TEXTS,
)
from geoalign.reports.run import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Scored:
    """The rollouts of a folder, texts left in the file. All arrays are [B] in the order of the input.

    Attributes:
        step: number of the dump, or the step it names.
        group: number of the rollout's group, 0 and up by first appearance over all steps.
        group_id: the group's id as the file has it, unique within its step.
        row: row in its input file; `sample`: place among the responses of its prompt.
        reward: NaN where the rollout could not be scored; `true_reward`, `new_reward`, `score`: NaN where unknown.
        correct: 1, 0, or NaN where the input does not say; `truncated` likewise.
        tokens: NaN where unknown.
        anomalous: what was flagged.
        source: the row that stands here afterwards; its own number where untouched, -1 where it is left out.
        group_pairs: pairs of the rollout's group.
        file, identity, answer: columns of text; `answer` may be null.
    """

    step: Ints
    group: Ints
    group_id: Ints
    row: Ints
    sample: Ints
    reward: Floats
    true_reward: Floats
    correct: Floats
    truncated: Floats
    characters: Ints
    tokens: Floats
    score: Floats
    anomalous: Bools
    source: Ints
    weight: Floats
    new_reward: Floats
    group_pairs: Ints
    file: pyarrow.ChunkedArray
    identity: pyarrow.ChunkedArray
    answer: pyarrow.ChunkedArray

    def __len__(self) -> int:
        return len(self.step)

    @property
    def first(self) -> Ints:
        """[G] the first row of every group."""
        return np.unique(self.group, return_index=True)[1]


@dataclass(frozen=True, eq=False)
class PairTable:
    """The saved pairs, [P] each: rows of the better and the worse rollout, deviation, cosines to the prototype."""

    step: Ints
    better: Ints
    worse: Ints
    deviation: Floats
    raw_cosine: Floats
    projected_cosine: Floats

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, eq=False)
class DensityTable:
    """The densities' grids of all steps, [N] each; `threshold` is NaN where nothing was anomalous."""

    step: Ints
    score: Floats
    density: Floats
    threshold: Floats
    peak: Floats


@dataclass(frozen=True, eq=False)
class Inspection:
    """A folder of `geoalign curate`. `pairs` and `densities` are None for curators that have none."""

    folder: Path
    scored: Scored
    pairs: PairTable | None
    densities: DensityTable | None
    redacted: bool
    summary: Mapping[str, Any]

    @property
    def curator(self) -> Mapping[str, Any]:
        found = self.summary.get("curator")
        return found if isinstance(found, Mapping) else {}

    @property
    def texts(self) -> pyarrow.parquet.ParquetFile:
        """The file that holds prompts and responses."""
        return pyarrow.parquet.ParquetFile(self.folder / SCORES_FILE)


def read_inspection(folder: Path) -> Inspection:
    """Reads the tables and the summary; prompts and responses stay in their file.

    Raises:
        RunFolderError: a file is missing or cut off, lacks a column, or contradicts itself; the message names it.
    """
    folder = Path(folder)
    path = folder / SCORES_FILE
    present = _names(path)
    redacted = not set(TEXTS) & set(present)
    wanted = [name for name in SCORES.names if name not in TEXTS]
    _require(present, wanted if redacted else SCORES.names, path)
    scored = _scored(pyarrow.parquet.read_table(path, columns=wanted), path)
    pairs = _optional(folder / PAIRS_FILE, PAIRS)
    densities = _optional(folder / DENSITIES_FILE, DENSITIES)
    return Inspection(
        folder=folder,
        scored=scored,
        pairs=None if pairs is None else _pairs(pairs, len(scored), folder / PAIRS_FILE),
        densities=None if densities is None else _densities(densities),
        redacted=redacted,
        summary=_summary(folder / SUMMARY_FILE),
    )


def _scored(table: pyarrow.Table, path: Path) -> Scored:
    rows = len(table)
    index, source = _ints(table, "index"), _ints(table, "source")
    if not np.array_equal(index, np.arange(rows)):
        raise RunFolderError(f"index: expected 0 to {rows - 1} in order, got other numbers in {path}")
    wrong = np.flatnonzero((source < -1) | (source >= rows))
    if len(wrong):
        raise RunFolderError(f"source: expected -1 to {rows - 1}, got {source[wrong[0]]} in row {wrong[0]} of {path}")
    step, identifier = _ints(table, "step"), _ints(table, "group")
    return Scored(
        step=step,
        group=_numbered(step, identifier),
        group_id=identifier,
        row=_ints(table, "row"),
        sample=_ints(table, "sample"),
        reward=_floats(table, "reward"),
        true_reward=_floats(table, "true_reward"),
        correct=_floats(table, "correct"),
        truncated=_floats(table, "truncated"),
        characters=_ints(table, "characters"),
        tokens=_floats(table, "tokens"),
        score=_floats(table, "score"),
        anomalous=_floats(table, "anomalous") == 1,
        source=source,
        weight=_floats(table, "weight"),
        new_reward=_floats(table, "new_reward"),
        group_pairs=_ints(table, "group_pairs"),
        file=table["file"],
        identity=table["id"],
        answer=table["answer"],
    )


def _numbered(step: Ints, group: Ints) -> Ints:
    """[B] groups of all steps numbered by first appearance."""
    if not len(step):
        return np.empty(0, dtype=np.int64)
    _, first, member = np.unique(np.stack([step, group]), axis=1, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[member.ravel()]


def _pairs(table: pyarrow.Table, rows: int, path: Path) -> PairTable:
    found = PairTable(
        step=_ints(table, "step"),
        better=_ints(table, "better"),
        worse=_ints(table, "worse"),
        deviation=_floats(table, "deviation"),
        raw_cosine=_floats(table, "raw_cosine"),
        projected_cosine=_floats(table, "projected_cosine"),
    )
    for name, place in (("better", found.better), ("worse", found.worse)):
        wrong = np.flatnonzero((place < 0) | (place >= rows))
        if len(wrong):
            raise RunFolderError(f"{name}: expected 0 to {rows - 1}, got {place[wrong[0]]} in row {wrong[0]} of {path}")
    return found


def _densities(table: pyarrow.Table) -> DensityTable:
    return DensityTable(
        step=_ints(table, "step"),
        score=_floats(table, "score"),
        density=_floats(table, "density"),
        threshold=_floats(table, "threshold"),
        peak=_floats(table, "peak"),
    )


def _names(path: Path) -> list[str]:
    try:
        return list(pyarrow.parquet.read_schema(path).names)
    except (pyarrow.ArrowException, OSError) as error:
        raise RunFolderError(f"{path.name}: expected a whole parquet file, got {error} in {path.parent}") from error


def _require(present: list[str], wanted: list[str], path: Path) -> None:
    missing = [name for name in wanted if name not in present]
    if missing:
        raise RunFolderError(f"columns: expected {', '.join(missing)} as well, got {', '.join(present)} in {path}")


def _optional(path: Path, schema: pyarrow.Schema) -> pyarrow.Table | None:
    if not path.is_file():
        return None
    _require(_names(path), schema.names, path)
    return pyarrow.parquet.read_table(path, columns=schema.names)


def _summary(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(f"{path.name}: expected a JSON object, got {error} in {path.parent}") from error
    if not isinstance(value, dict):
        raise RunFolderError(f"{path.name}: expected a JSON object, got {type(value).__name__} in {path.parent}")
    return value


def _floats(table: pyarrow.Table, name: str) -> Floats:
    """A column of numbers or booleans, nulls as NaN."""
    return table[name].cast(pyarrow.float64()).fill_null(float("nan")).to_numpy().astype(np.float64)


def _ints(table: pyarrow.Table, name: str) -> Ints:
    column = table[name]
    if column.null_count:
        raise RunFolderError(f"{name}: expected a number in every row, got {column.null_count} nulls")
    return column.cast(pyarrow.int64()).to_numpy().astype(np.int64)
