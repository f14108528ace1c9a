"""The results of a comparison, a cell for each level, arm and seed: a file for each, or all in `results.parquet`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from geoalign.errors import RunFolderError
from geoalign.lab.store.columns import Bools, Floats, read_columns, write_table
from geoalign.lab.store.comparison import (
    COMPACT,
    RESULT_FILES,
    SCHEMA_VERSION,
    ComparisonFolder,
    check_result,
    read_result,
)
from geoalign.lab.store.logs import Evaluation, parse_evaluation
from geoalign.lab.store.values import float_or_nan
from geoalign.shown import brief


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The rollouts of one generation, all arrays [B]: what rank plots and distributions need.

    NaN where unscored; `mean_score` is all NaN where the score is no sum over pairs, `corrupted` None where unknown.
    """

    step: int
    score: Floats
    mean_score: Floats
    pair_count: Floats
    reward: Floats
    corrupted: Bools | None
    anomalous: Bools


@dataclass(frozen=True)
class ScoreQuality:
    """How a score ranks corrupted rewards within a generation, mean over the generations that hold both kinds."""

    auroc: float
    auprc: float
    generations: int


@dataclass(frozen=True, eq=False)
class Cell:
    """What one arm did with one seed at one level.

    Attributes:
        arm, level, seed: which cell.
        finished: False where it failed; `error` then says why and the rest may be empty.
        curator: name of the curator.
        settings: its resolved settings.
        run: resolved settings of the whole run; empty where they were not kept.
        evaluations: lines of evaluation.jsonl.
        series: quantities over `series["step"]`, NaN where absent; all of one length.
        detection: by name of the score; empty where no reward was corrupted.
        replaced_precision: share of corrupted ones among the replaced; NaN where undefined.
        base_rate: share of corrupted ones; NaN where unknown.
        snapshots: a few generations.
        seconds, seconds_per_step, peak_memory_bytes: cost of the whole run; NaN where unknown.
    """

    arm: str
    level: str
    seed: int
    finished: bool
    error: str
    curator: str
    settings: Mapping[str, Any]
    run: Mapping[str, Any]
    evaluations: tuple[Evaluation, ...]
    series: Mapping[str, Floats]
    detection: Mapping[str, ScoreQuality]
    replaced_precision: float
    base_rate: float
    snapshots: tuple[Snapshot, ...]
    seconds: float
    seconds_per_step: float
    peak_memory_bytes: float

    def column(self, name: str) -> Floats:
        """A quantity over steps; all NaN where it was not recorded."""
        steps = self.series.get("step", np.empty(0))
        return self.series.get(name, np.full(len(steps), np.nan))


def read_results(folder: Path) -> tuple[Cell, ...]:
    """Every cell of the comparison in `folder`, by level, arm and seed."""
    cells = (parse_cell(value, path) for value, path in results(folder))
    return tuple(sorted(cells, key=lambda cell: (cell.level, cell.arm, cell.seed)))


def parse_cell(value: Mapping[str, Any], path: Path) -> Cell:
    """The cell of one result."""
    check_result(value, path)
    finished = value["status"] == "finished"
    # A cell that failed may have got nowhere: only what names it must be there.
    content = value if finished else {"evaluations": [], "series": {}, "detection": {}, "snapshots": [], **value}
    detection = dict(content["detection"])
    return Cell(
        arm=value["arm"],
        level=value["level"],
        seed=value["seed"],
        finished=finished,
        error=str(value.get("error") or ("" if finished else "no reason was recorded")),
        curator=value.get("curator", "unknown"),
        settings=value.get("settings") or {},
        run=value.get("run") or {},
        evaluations=tuple(map(parse_evaluation, content["evaluations"])),
        series={name: _floats(values) for name, values in content["series"].items() if values is not None},
        replaced_precision=float_or_nan(detection.pop("precision_among_replaced", None)),
        base_rate=float_or_nan(detection.pop("base_rate", None)),
        detection={
            name: ScoreQuality(
                float_or_nan(entry.get("auroc")), float_or_nan(entry.get("auprc")), entry.get("generations") or 0
            )
            for name, entry in detection.items()
        },
        snapshots=tuple(_snapshot(item) for item in content["snapshots"]),
        **{name: float_or_nan(value.get(name)) for name in ("seconds", "seconds_per_step", "peak_memory_bytes")},
    )


def _snapshot(item: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        step=item["step"],
        score=_floats(item["score"]),
        mean_score=np.full(len(item["score"]), np.nan) if item["mean_score"] is None else _floats(item["mean_score"]),
        pair_count=_floats(item["pair_count"]),
        reward=_floats(item["reward"]),
        corrupted=None if item["corrupted"] is None else np.array(item["corrupted"], dtype=np.bool_),
        anomalous=np.array(item["anomalous"], dtype=np.bool_),
    )


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array(values, dtype=np.float64)  # None is NaN


_VERSION = b"geoalign_results_schema"
_NAME = "{level}/{arm}/seed-{seed}"
_NUMBERS = pa.list_(pa.float64())
_MARKS = pa.list_(pa.bool_())
_EVALUATION = pa.struct(
    {
        "step": pa.int64(), "stage": pa.string(), "set": pa.string(), "accuracy": pa.float64(), "correct": pa.int64(),
        "count": pa.int64(), "reward": pa.float64(), "gold_utility": pa.float64(), "samples": pa.int64(),
        "pass_at_k": pa.map_(pa.string(), pa.float64()),
    }
)  # fmt: skip
_SNAPSHOT = pa.struct(
    {
        "step": pa.int64(), "score": _NUMBERS, "mean_score": _NUMBERS, "pair_count": _NUMBERS, "reward": _NUMBERS,
        "corrupted": _MARKS, "anomalous": _MARKS,
    }
)  # fmt: skip
_QUALITY = pa.struct({"auroc": pa.float64(), "auprc": pa.float64(), "generations": pa.int64()})
_SHARES = ("precision_among_replaced", "base_rate")
# `results.parquet` is what one commits or sends. A row is a cell, `SCHEMA` its columns:
#
# arm, level, seed, status, error    as in a result file
# same_run_as                        level/arm/seed-N of the row that holds this cell's run; all that follows is null
# curator, settings, run             the curator's name; its settings and those of the whole run, as JSON
# settings_key                       hash of what decides the run's numbers
# evaluations                        lines of evaluation.jsonl
# series                             logged quantities by name, one value for each of `step`, null where not logged
# detection                          by name of the score: AUROC, average precision, generations behind them
# precision_among_replaced, base_rate   shares of corrupted rewards: among replaced rollouts, among all in a pair
# snapshots                          rollouts of a few generations; of the arms alone whose ranks the page draws
# seconds, seconds_per_step, peak_memory_bytes   cost of the whole run
SCHEMA = pa.schema(
    {
        "arm": pa.string(), "level": pa.string(), "seed": pa.int64(), "status": pa.string(), "error": pa.string(),
        "same_run_as": pa.string(), "curator": pa.string(), "settings": pa.string(), "run": pa.string(),
        "settings_key": pa.string(), "evaluations": pa.list_(_EVALUATION), "series": pa.map_(pa.string(), _NUMBERS),
        "detection": pa.map_(pa.string(), _QUALITY), **dict.fromkeys(_SHARES, pa.float64()),
        "snapshots": pa.list_(_SNAPSHOT), "seconds": pa.float64(),
        "seconds_per_step": pa.float64(), "peak_memory_bytes": pa.float64(),
    },
    metadata={_VERSION: str(SCHEMA_VERSION)},
)  # fmt: skip
_OF_THE_CELL = ("arm", "level", "seed", "status", "error", "same_run_as")


def results(folder: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """The content of every result under `folder`, as its file holds it, and that file."""
    root, compact = ComparisonFolder(folder).results, Path(folder) / COMPACT
    if root.is_dir() and compact.is_file():
        raise RunFolderError(f"comparison: expected results/ or {COMPACT}, got both in {folder}")
    if root.is_dir():
        for path in sorted(root.glob(RESULT_FILES)):
            yield read_result(path), path
    elif compact.is_file():
        yield from _compact_results(compact)
    else:
        raise RunFolderError(f"comparison: expected a folder with results/ or {COMPACT}, got {folder}")


def write_compact(folder: Path, path: Path, drawn: Collection[tuple[str, str]]) -> None:
    """Writes the results under `folder`, which `read_results` has checked to be whole, as one file.

    Args:
        path: the file, which is replaced.
        drawn: the arms, as (level, arm), whose snapshots are kept.
    """
    rows: list[dict[str, Any]] = []
    known: dict[str, str] = {}
    for result, _ in results(folder):
        cell = {name: result.get(name) for name in _OF_THE_CELL if name != "same_run_as"}
        row = _row(result, snapshots=(result["level"], result["arm"]) in drawn)
        name = _NAME.format(**cell)
        first = known.setdefault(json.dumps(row), name) if result["status"] == "finished" else name
        rows.append({**cell, "same_run_as": first} if first != name else {**cell, **row})
    write_table(path, pa.Table.from_pylist(rows, schema=SCHEMA), compression_level=19, use_dictionary=False)


def _row(result: Mapping[str, Any], *, snapshots: bool) -> dict[str, Any]:
    """All columns of a result but those that name its cell."""
    row = {name: result.get(name) for name in SCHEMA.names if name not in _OF_THE_CELL}
    detection = {name: value for name, value in (result.get("detection") or {}).items() if name not in _SHARES}
    return {
        **row,
        **{name: (result.get("detection") or {}).get(name) for name in _SHARES},
        "settings": json.dumps(result.get("settings"), ensure_ascii=False),
        "run": json.dumps(result.get("run"), ensure_ascii=False),
        "evaluations": [
            {**line, "pass_at_k": _entries(line.get("pass_at_k"))} for line in result.get("evaluations") or ()
        ],
        "series": _entries({name: values for name, values in (row["series"] or {}).items() if values is not None}),
        "detection": _entries(detection),
        "snapshots": (row["snapshots"] or []) if snapshots else [],
    }


def _entries(mapping: Mapping[str, Any] | None) -> list[tuple[str, Any]] | None:
    return list(mapping.items()) if mapping else None


def _compact_results(path: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    table = read_columns(path, SCHEMA.names)
    version = (table.schema.metadata or {}).get(_VERSION)
    if version != SCHEMA.metadata[_VERSION]:
        raise RunFolderError(f"schema_version: expected {SCHEMA_VERSION}, got {brief(version)} in {path}")
    rows = table.to_pylist()
    runs = {_NAME.format(**row): row for row in rows if row["same_run_as"] is None}
    for row in rows:
        run = runs[row["same_run_as"] or _NAME.format(**row)]
        yield _result({**run, **{name: row[name] for name in _OF_THE_CELL}}), path


def _result(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as the content of a result file, where a null is left out."""
    return {
        **{name: value for name, value in row.items() if value is not None},
        "schema_version": SCHEMA_VERSION,
        "settings": json.loads(row["settings"] or "null"),
        "run": json.loads(row["run"] or "null"),
        "evaluations": [{**line, "pass_at_k": dict(line["pass_at_k"] or ())} for line in row["evaluations"] or ()],
        "series": dict(row["series"] or ()),
        "detection": {**dict(row["detection"] or ()), **{name: row[name] for name in _SHARES}},
    }
