"""The results of a comparison's runs: read, compacted, written."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from geoalign.errors import RunFolderError
from geoalign.files.columns import Bools, Floats, read_columns, write_table
from geoalign.files.json_files import float_or_nan, read_json
from geoalign.lab.compare.folder import COMPACT, RESULT_FILES, SCHEMA_VERSION, ComparisonFolder
from geoalign.lab.compare.settings import updates_per_generation
from geoalign.lab.runs.reading import Evaluation, parse_evaluation
from geoalign.text import quote


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The rollouts of one generation, arrays [B]: score (NaN: unscored) and reward, `corrupted` None if unknown."""

    score: Floats
    reward: Floats
    corrupted: Bools | None


@dataclass(frozen=True, eq=False)
class Cell:
    """What one arm did with one seed at one level; numbers are NaN where unknown.

    Attributes:
        finished: False where it failed; `error` then says why and the rest may be empty.
        curator, settings: name of the curator, and its resolved settings.
        series: quantities over `series["step"]`, NaN where absent; all of one length.
        detection: AUROC and average precision of each score by its name, mean over the generations that hold corrupted
            and other rewards; empty where none was corrupted.
        replaced_precision: share of corrupted ones among the replaced.
        base_rate: share of corrupted ones.
        updates_per_generation: of this run, NaN where its result does not say.
        snapshots: a few generations.
    """

    arm: str
    level: str
    seed: int
    finished: bool
    error: str
    curator: str
    settings: Mapping[str, Any]
    evaluations: tuple[Evaluation, ...]
    series: Mapping[str, Floats]
    detection: Mapping[str, tuple[float, float]]
    replaced_precision: float
    base_rate: float
    snapshots: tuple[Snapshot, ...]
    seconds: float
    seconds_per_step: float
    peak_memory_bytes: float
    updates_per_generation: float = math.nan

    def column(self, name: str) -> Floats:
        """A quantity over steps; all NaN where it was not recorded."""
        steps = self.series.get("step", np.empty(0))
        return self.series.get(name, np.full(len(steps), np.nan))


def read_results(folder: Path) -> tuple[Cell, ...]:
    """Every cell of the comparison in `folder`, by level, arm and seed."""
    cells = (parse_cell(value, path) for value, path in results(folder))
    return tuple(sorted(cells, key=lambda cell: (cell.level, cell.arm, cell.seed)))


def parse_cell(value: Mapping[str, Any], path: Path) -> Cell:
    """The cell of one result; one that failed may have nothing but its name."""
    if value["schema_version"] != SCHEMA_VERSION:
        raise RunFolderError(f"{path}: schema_version: expected {SCHEMA_VERSION}, got {quote(value['schema_version'])}")
    finished = value["status"] == "finished"
    detection = dict(value.get("detection") or {})
    return Cell(
        arm=value["arm"],
        level=value["level"],
        seed=value["seed"],
        finished=finished,
        error=str(value.get("error") or ("" if finished else "no reason was recorded")),
        curator=value.get("curator", "unknown"),
        settings=value.get("settings") or {},
        evaluations=tuple(map(parse_evaluation, value.get("evaluations", ()))),
        series={name: _floats(values) for name, values in value.get("series", {}).items() if values is not None},
        replaced_precision=float_or_nan(detection.pop("precision_among_replaced", None)),
        base_rate=float_or_nan(detection.pop("base_rate", None)),
        updates_per_generation=_updates(value),
        detection={
            name: (float_or_nan(entry.get("auroc")), float_or_nan(entry.get("auprc")))
            for name, entry in detection.items()
        },
        snapshots=tuple(
            Snapshot(
                _floats(item["score"]),
                _floats(item["reward"]),
                None if item["corrupted"] is None else np.array(item["corrupted"], dtype=np.bool_),
            )
            for item in value.get("snapshots", ())
        ),
        **{name: float_or_nan(value.get(name)) for name in ("seconds", "seconds_per_step", "peak_memory_bytes")},
    )


def _updates(result: Mapping[str, Any]) -> float:
    """The updates made on each generation: as the run recorded them, else by its resolved settings; NaN without."""
    recorded = result.get("updates_per_generation")
    if recorded is not None:
        return float_or_nan(recorded)
    settings = result.get("run") or {}
    return updates_per_generation(settings["grpo"]) if "grpo" in settings else math.nan


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
    """Writes the results under `folder` as one file; snapshots are kept of the arms `drawn`, as (level, arm)."""
    kept = [
        result if (result["level"], result["arm"]) in drawn else {**result, "snapshots": []}
        for result, _ in results(folder)
    ]
    rows = [json.dumps(result, ensure_ascii=False) for result in kept]
    write_table(path, pa.table({"result": rows}), compression_level=19, use_dictionary=False)
