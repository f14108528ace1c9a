"""The results of a comparison: a cell for each level, arm and seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geoalign.errors import RunFolderError
from geoalign.lab.store.columns import Bools, Floats
from geoalign.lab.store.compact import results
from geoalign.lab.store.comparison import SCHEMA_VERSION, check_result
from geoalign.lab.store.logs import Evaluation, parse_evaluation
from geoalign.lab.store.values import the_list, the_mapping, the_number, the_text, the_whole
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
    """Every cell of the comparison in `folder`, by level, arm and seed.

    Raises:
        RunFolderError: no results are there, one is not whole or of another schema, or a cell has two results.
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
    check_result(value, path)
    try:
        return _cell(value, path)
    except KeyError as error:
        raise RunFolderError(
            f"result: expected the key {brief(error, 120)}, got {brief(', '.join(sorted(value)))} in {path}"
        ) from error
    except (AttributeError, TypeError, ValueError) as error:
        raise RunFolderError(
            f"result: expected values of schema {SCHEMA_VERSION}, got {brief(error, 120)} in {path}"
        ) from error


def _cell(value: Mapping[str, Any], path: Path) -> Cell:
    finished = value["status"] == "finished"
    # A cell that failed may have got nowhere: only what names it must be there.
    content = value if finished else {"evaluations": [], "series": {}, "detection": {}, "snapshots": [], **value}
    detection = dict(the_mapping(content["detection"], "detection"))
    return Cell(
        arm=the_text(value["arm"], "arm"),
        level=the_text(value["level"], "level"),
        seed=the_whole(value["seed"], "seed"),
        finished=finished,
        error=str(value.get("error") or ("" if finished else "no reason was recorded")),
        curator=the_text(value.get("curator", "unknown"), "curator"),
        settings=dict(the_mapping(value.get("settings"), "settings")),
        run=dict(the_mapping(value.get("run"), "run")),
        evaluations=tuple(
            parse_evaluation(the_mapping(line, "a line of evaluations"), f"evaluation {at} of {path}")
            for at, line in enumerate(the_list(content["evaluations"], "evaluations"), 1)
        ),
        series=_columns("series", the_mapping(content["series"], "series"), "step"),
        replaced_precision=the_number(detection.pop("precision_among_replaced", None), "precision_among_replaced"),
        base_rate=the_number(detection.pop("base_rate", None), "base_rate"),
        detection={str(name): _quality(the_mapping(entry, "detection")) for name, entry in detection.items()},
        snapshots=tuple(_snapshot(item) for item in the_list(content["snapshots"], "snapshots")),
        seconds=the_number(value.get("seconds"), "seconds"),
        seconds_per_step=the_number(value.get("seconds_per_step"), "seconds_per_step"),
        peak_memory_bytes=the_number(value.get("peak_memory_bytes"), "peak_memory_bytes"),
    )


def _columns(name: str, columns: Mapping[str, Any], leading: str) -> dict[str, Floats]:
    """Columns of the length of the leading one; an absent column is left out."""
    if not columns:
        return {}
    arrays = {str(key): _floats(the_list(values, name)) for key, values in columns.items() if values is not None}
    size = len(arrays[leading])
    wrong = [f"{key} with {len(values)}" for key, values in arrays.items() if len(values) != size]
    if wrong:
        raise ValueError(f"{name}.{wrong[0]} values beside {size} of {leading}")
    if np.isnan(arrays[leading]).any():
        raise ValueError(f"{name} without a number in {leading}")
    return arrays


def _quality(entry: Mapping[str, Any]) -> ScoreQuality:
    return ScoreQuality(
        the_number(entry.get("auroc"), "auroc"),
        the_number(entry.get("auprc"), "auprc"),
        the_whole(entry.get("generations") or 0, "generations"),
    )


def _snapshot(value: Any) -> Snapshot:
    item = the_mapping(value, "a snapshot")
    size = len(item["score"])
    snapshot = Snapshot(
        step=the_whole(item["step"], "step"),
        score=_floats(item["score"]),
        mean_score=_floats(item["mean_score"]) if item["mean_score"] is not None else np.full(size, np.nan),
        pair_count=_floats(item["pair_count"]),
        reward=_floats(item["reward"]),
        corrupted=None if item["corrupted"] is None else _marks(item["corrupted"]),
        anomalous=_marks(item["anomalous"]),
    )
    sizes = {name: len(values) for name, values in vars(snapshot).items() if isinstance(values, np.ndarray)}
    if set(sizes.values()) != {size}:
        raise ValueError(f"snapshot columns of different length: {sizes}")
    return snapshot


def _marks(values: Any) -> Bools:
    marks = the_list(values, "marks")
    if not all(isinstance(mark, bool | int) and mark in (0, 1) for mark in marks):
        raise TypeError("marks that are neither true nor false")
    return np.array(marks, dtype=np.bool_)


def _floats(values: Any) -> Floats:
    return np.array([the_number(value, "a column") for value in the_list(values, "a column")], dtype=np.float64)
