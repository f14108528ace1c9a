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
from geoalign.lab.store.comparison import COMPACT, RESULT_FILES, SCHEMA_VERSION, ComparisonFolder
from geoalign.lab.store.json_files import read_json
from geoalign.lab.store.logs import Evaluation, parse_evaluation
from geoalign.lab.store.values import float_or_nan
from geoalign.shown import shown


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
    if value["schema_version"] != SCHEMA_VERSION:
        raise RunFolderError(f"{path}: schema_version: expected {SCHEMA_VERSION}, got {shown(value['schema_version'])}")
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


def results(folder: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """The content of every result under `folder`, as its file holds it, and that file."""
    root, compact = ComparisonFolder(folder).results, Path(folder) / COMPACT
    if root.is_dir() and compact.is_file():
        raise RunFolderError(f"comparison: expected results/ or {COMPACT}, got both in {folder}")
    if root.is_dir():
        for path in sorted(root.glob(RESULT_FILES)):
            yield read_json(path), path
    elif compact.is_file():
        for text in read_columns(compact, ["result"])["result"].to_pylist():
            yield json.loads(text), compact
    else:
        raise RunFolderError(f"comparison: expected a folder with results/ or {COMPACT}, got {folder}")


def write_compact(folder: Path, path: Path, drawn: Collection[tuple[str, str]]) -> None:
    """Writes the results under `folder` as one file, a row for each with its JSON.

    Args:
        path: the file, which is replaced.
        drawn: the arms, as (level, arm), whose snapshots are kept.
    """
    kept = [
        result if (result["level"], result["arm"]) in drawn else {**result, "snapshots": []}
        for result, _ in results(folder)
    ]
    rows = [json.dumps(result, ensure_ascii=False) for result in kept]
    write_table(path, pa.table({"result": rows}), compression_level=19, use_dictionary=False)
