"""The results of a comparison: a cell for each level, arm and seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geoalign.errors import RunFolderError
from geoalign.lab.store.compact import RESULTS_SCHEMA, results
from geoalign.lab.store.records import Evaluation, number, parse_evaluation, shown, told, whole
from geoalign.lab.store.run import Bools, Floats


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
    """Every cell of the comparison in `folder`, by level, arm and seed.

    Raises:
        RunFolderError: no results are there, one is not whole or of another schema, or a cell stands there twice.
    """
    cells: dict[tuple[str, str, int], Cell] = {}
    for value, path in results(folder):
        cell = parse_cell(value, path)
        key = (cell.level, cell.arm, cell.seed)
        if key in cells:
            raise RunFolderError(
                f"results: expected one result a cell, got a second for level {cell.level!r}, arm {cell.arm!r}, "
                f"seed {cell.seed}: {path}"
            )
        cells[key] = cell
    return tuple(cells[key] for key in sorted(cells))


def parse_cell(value: Mapping[str, Any], path: Path) -> Cell:
    """The cell of one result.

    Raises:
        RunFolderError: another schema, a missing key or a value of another kind, each named.
    """
    if whole(value.get("schema_version")) != RESULTS_SCHEMA:
        raise RunFolderError(
            f"schema_version: expected {RESULTS_SCHEMA}, got {told(value.get('schema_version'))} in {path}"
        )
    if value.get("status") not in ("finished", "failed"):
        raise RunFolderError(f"status: expected 'finished' or 'failed', got {told(value.get('status'))} in {path}")
    try:
        return _cell(value, path)
    except KeyError as error:
        raise RunFolderError(
            f"result: expected the key {shown(error)}, got {shown(', '.join(sorted(value)))} in {path}"
        ) from error
    except (AttributeError, TypeError, ValueError) as error:
        raise RunFolderError(
            f"result: expected values of schema {RESULTS_SCHEMA}, got {shown(error)} in {path}"
        ) from error


def _cell(value: Mapping[str, Any], path: Path) -> Cell:
    finished = value["status"] == "finished"
    # A cell that failed may have got nowhere: only what names it must be there.
    content = value if finished else {"evaluations": [], "series": {}, "detection": {}, "snapshots": [], **value}
    detection = dict(_mapping(content["detection"], "detection"))
    return Cell(
        arm=_text(value["arm"], "arm"),
        level=_text(value["level"], "level"),
        seed=_whole(value["seed"], "seed"),
        finished=finished,
        error=str(value.get("error") or ("" if finished else "no reason was recorded")),
        curator=_text(value.get("curator", "unknown"), "curator"),
        settings=dict(_mapping(value.get("settings"), "settings")),
        run=dict(_mapping(value.get("run"), "run")),
        evaluations=tuple(
            parse_evaluation(_mapping(line, "a line of evaluations"), f"evaluation {at} of {path}")
            for at, line in enumerate(_list(content["evaluations"], "evaluations"), 1)
        ),
        series=_columns("series", _mapping(content["series"], "series"), "step"),
        replaced_precision=_number(detection.pop("precision_among_replaced", None)),
        base_rate=_number(detection.pop("base_rate", None)),
        detection={str(name): _quality(_mapping(found, "detection")) for name, found in detection.items()},
        snapshots=tuple(_snapshot(item) for item in _list(content["snapshots"], "snapshots")),
        seconds=_number(value.get("seconds")),
        seconds_per_step=_number(value.get("seconds_per_step")),
        peak_memory_bytes=_number(value.get("peak_memory_bytes")),
    )


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__} for {name}")
    return value or {}


def _list(value: Any, name: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise TypeError(f"{type(value).__name__} for {name}")
    return value or []


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} for {name}")
    return value


def _whole(value: Any, name: str) -> int:
    found = whole(value)
    if found is None:
        raise TypeError(f"{told(value)} for {name}, which is a whole number from 0 on")
    return found


def _columns(name: str, columns: Mapping[str, Any], leading: str) -> dict[str, Floats]:
    """Columns of the length of the leading one; an absent column is left out."""
    if not columns:
        return {}
    found = {str(key): _floats(_list(values, name)) for key, values in columns.items() if values is not None}
    size = len(found[leading])
    wrong = [f"{key} with {len(values)}" for key, values in found.items() if len(values) != size]
    if wrong:
        raise ValueError(f"{name}.{wrong[0]} values beside {size} of {leading}")
    if np.isnan(found[leading]).any():
        raise ValueError(f"{name} without a number in {leading}")
    return found


def _quality(entry: Mapping[str, Any]) -> ScoreQuality:
    return ScoreQuality(
        _number(entry.get("auroc")), _number(entry.get("auprc")), _whole(entry.get("generations") or 0, "generations")
    )


def _snapshot(value: Any) -> Snapshot:
    item = _mapping(value, "a snapshot")
    size = len(item["score"])
    found = Snapshot(
        step=_whole(item["step"], "step"),
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


def _marks(values: Any) -> Bools:
    marks = _list(values, "marks")
    if not all(isinstance(mark, bool | int) and mark in (0, 1) for mark in marks):
        raise TypeError("marks that are neither true nor false")
    return np.array(marks, dtype=np.bool_)


def _floats(values: Any) -> Floats:
    return np.array([_number(value) for value in _list(values, "a column")], dtype=np.float64)


def _number(value: Any) -> float:
    """A number, null as NaN."""
    found = math.nan if value is None else number(value)
    if found is None:
        raise TypeError(f"{told(value)}, where a number up to 1e100 or null is expected")
    return found
