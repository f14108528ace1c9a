"""The results of a comparison: a cell for each level, arm and seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from geoalign.lab.store.columns import Bools, Floats
from geoalign.lab.store.compact import results
from geoalign.lab.store.comparison import check_result
from geoalign.lab.store.logs import Evaluation, parse_evaluation
from geoalign.lab.store.values import float_or_nan


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
        RunFolderError: no results are there, or one is of another schema.
    """
    cells = (parse_cell(value, path) for value, path in results(folder))
    return tuple(sorted(cells, key=lambda cell: (cell.level, cell.arm, cell.seed)))


def parse_cell(value: Mapping[str, Any], path: Path) -> Cell:
    """The cell of one result.

    Raises:
        RunFolderError: another schema.
    """
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
