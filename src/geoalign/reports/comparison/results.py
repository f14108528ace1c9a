"""Reading the compact results of a comparison: one JSON file for each level, arm and seed."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geoalign.errors import RunFolderError
from geoalign.records import parse_evaluation
from geoalign.records import Evaluation
from geoalign.reports.run import Bools, Floats

RESULTS_SCHEMA = 1


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
        alpha_sweep: columns of equal length, one of them "alpha"; empty where none was made.
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
    alpha_sweep: Mapping[str, Floats]
    seconds: float
    seconds_per_step: float
    peak_memory_bytes: float

    def column(self, name: str) -> Floats:
        """A quantity over steps; all NaN where it was not recorded."""
        steps = self.series.get("step", np.empty(0))
        return self.series.get(name, np.full(len(steps), np.nan))


def read_results(folder: Path) -> tuple[Cell, ...]:
    """Every cell under `folder`/results, by level, arm and seed.

    Raises:
        RunFolderError: there is no such folder, a file is no whole result of schema 1, or a cell stands there twice.
    """
    root = Path(folder) / "results"
    if not root.is_dir():
        raise RunFolderError(f"comparison: expected a folder with results/, got {folder}")
    cells: dict[tuple[str, str, int], Cell] = {}
    for path in sorted(root.glob("*/*/seed-*.json")):
        cell = read_cell(path)
        key = (cell.level, cell.arm, cell.seed)
        if key in cells:
            raise RunFolderError(
                f"results: expected one file a cell, got a second for level {cell.level!r}, arm {cell.arm!r}, "
                f"seed {cell.seed}: {path}"
            )
        cells[key] = cell
    return tuple(cells[key] for key in sorted(cells))


def read_cell(path: Path) -> Cell:
    """Reads one result file.

    Raises:
        RunFolderError: not a whole file, another schema, a missing key or a value of another kind, each named.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"result: expected a whole JSON file, got {error} in {path}") from error
    if not isinstance(value, dict):
        raise RunFolderError(f"result: expected an object, got {type(value).__name__} in {path}")
    if value.get("schema_version") != RESULTS_SCHEMA:
        raise RunFolderError(
            f"schema_version: expected {RESULTS_SCHEMA}, got {value.get('schema_version')!r} in {path}"
        )
    if value.get("status") not in ("finished", "failed"):
        raise RunFolderError(f"status: expected 'finished' or 'failed', got {value.get('status')!r} in {path}")
    try:
        return _cell(value, path)
    except KeyError as error:
        raise RunFolderError(f"result: expected the key {error}, got {', '.join(sorted(value))} in {path}") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise RunFolderError(f"result: expected values of schema {RESULTS_SCHEMA}, got {error} in {path}") from error


def _cell(value: Mapping[str, Any], path: Path) -> Cell:
    finished = value["status"] == "finished"
    # A cell that failed may have got nowhere: only what names it must be there.
    content = value if finished else {"evaluations": [], "series": {}, "detection": {}, "snapshots": [], **value}
    detection = dict(content["detection"] or {})
    return Cell(
        arm=str(value["arm"]),
        level=str(value["level"]),
        seed=int(value["seed"]),
        finished=finished,
        error=str(value.get("error") or ("" if finished else "no reason was recorded")),
        curator=str(value.get("curator", "unknown")),
        settings=dict(value.get("settings") or {}),
        run=dict(value.get("run") or {}),
        evaluations=tuple(parse_evaluation(line, str(path)) for line in content["evaluations"] or ()),
        series=_columns("series", content["series"] or {}, "step"),
        replaced_precision=_number(detection.pop("precision_among_replaced", None)),
        base_rate=_number(detection.pop("base_rate", None)),
        detection={str(name): _quality(found) for name, found in detection.items()},
        snapshots=tuple(_snapshot(item) for item in content["snapshots"] or ()),
        alpha_sweep=_columns("alpha_sweep", content.get("alpha_sweep") or {}, "alpha"),
        seconds=_number(value.get("seconds")),
        seconds_per_step=_number(value.get("seconds_per_step")),
        peak_memory_bytes=_number(value.get("peak_memory_bytes")),
    )


def _columns(name: str, columns: Mapping[str, Any], leading: str) -> dict[str, Floats]:
    """Columns of the length of the leading one; an absent column is left out."""
    if not columns:
        return {}
    size = len(columns[leading])
    found = {str(key): _floats(values) for key, values in columns.items() if values is not None}
    wrong = [f"{key} with {len(values)}" for key, values in found.items() if len(values) != size]
    if wrong:
        raise ValueError(f"{name}.{wrong[0]} values beside {size} of {leading}")
    return found


def _quality(found: Mapping[str, Any] | None) -> ScoreQuality:
    entry = found or {}
    return ScoreQuality(_number(entry.get("auroc")), _number(entry.get("auprc")), int(entry.get("generations") or 0))


def _snapshot(item: Mapping[str, Any]) -> Snapshot:
    size = len(item["score"])
    found = Snapshot(
        step=int(item["step"]),
        score=_floats(item["score"]),
        mean_score=_floats(item["mean_score"]) if item["mean_score"] is not None else np.full(size, np.nan),
        pair_count=_floats(item["pair_count"]),
        reward=_floats(item["reward"]),
        corrupted=None if item["corrupted"] is None else _marks(item["corrupted"]),
        anomalous=_marks(item["anomalous"]),
    )
    sizes = {name: len(values) for name, values in vars(found).items() if isinstance(values, np.ndarray)}
    if set(sizes.values()) != {size}:
        raise ValueError(f"snapshot columns of different length: {sizes}")
    return found


def _marks(values: Iterable[Any]) -> Bools:
    return np.array([bool(mark) for mark in values], dtype=np.bool_)


def _floats(values: Iterable[Any]) -> Floats:
    return np.array([_number(value) for value in values], dtype=np.float64)


def _number(value: Any) -> float:
    """A number; what is absent or infinite is NaN, so that no mean silently becomes infinite."""
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else math.nan
