"""The results of a comparison's runs: made from a run's folder, read back as numbers, written as one file."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pandas import DataFrame

from geoalign.errors import RunFolderError
from geoalign.files.columns import Bools, Floats, read_columns, write_table
from geoalign.files.json_files import finite, read_json, read_lines
from geoalign.files.rollout_step import RolloutStep
from geoalign.lab.compare.folder import COMPACT, RESULT_FILES, SCHEMA_VERSION, ComparisonFolder
from geoalign.lab.runs.detection import areas_of, marked_rows, whole_run
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.runs.generations import CHANGED
from geoalign.lab.runs.numbers import (
    APPLIED,
    OBSERVED,
    RL,
    Row,
    curation_seconds,
    evaluation_rows,
    numbers_of,
    series_of,
    true_rewards,
)
from geoalign.lab.runs.reading import Run, parse_evaluation, read_run
from geoalign.statistics import mean
from geoalign.text import quote

# Generations whose scores a result keeps.
_SNAPSHOTS = 5
# The logged numbers that a result keeps over steps.
_SERIES = (
    "reward", "ppo_kl", "clip_fraction", "replaced", "train_accuracy", "heldout_pair_accuracy", "new_group_accuracy",
    "appeals_asked", APPLIED, OBSERVED,
)  # fmt: skip
# The stage of a number that is of a run as a whole, and the numbers that a result has of those.
WHOLE_RUN = "run"
OF_RUN = ("seconds", "seconds_per_step", "peak_memory_bytes", "updates_per_generation")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The rollouts of one generation, arrays [B]: score (NaN: unscored) and reward, `corrupted` None if unknown."""

    score: Floats
    reward: Floats
    corrupted: Bools | None


@dataclass(frozen=True, eq=False)
class RunResult:
    """What one arm did with one seed at one level.

    Attributes:
        finished: False where it failed; `error` then says why and the rest may be empty.
        same_run_as: the name of the cell whose run this also is: an arm that heeds no wrong reward runs once for all
            levels. Empty where the run is this cell's own.
        curator, settings: name of the curator, and its resolved settings.
        rows: its numbers, as rows of the frame of a run (`geoalign.lab.runs.numbers`).
        snapshots: a few generations.
    """

    level: str
    arm: str
    seed: int
    finished: bool
    error: str
    same_run_as: str
    curator: str
    settings: Mapping[str, Any]
    rows: tuple[Row, ...]
    snapshots: tuple[Snapshot, ...]


# --- from the folder of a finished run --------------------------------------------------------------------------------


def result_of(folder: RunFolder) -> dict[str, Any]:
    """What a comparison keeps of a finished run, from its own files alone; None where a number is not known.

    `series` has the logged numbers of RL as columns of one length. `curation_seconds` is what the curator added to a
    step: its own seconds and those of its pass for hidden states. `true_reward` is the mean reward of a generation
    before corruption, at the first line after it was generated.
    """
    run = read_run(folder.root)
    numbers = numbers_of(run)
    return rounded(
        {
            "evaluations": read_lines(folder.evaluation),
            "series": _series(run, numbers),
            "detection": _detection(numbers),
            "snapshots": [_snapshot(step) for step in _evenly_spread(run.rollouts, _SNAPSHOTS)],
            "seconds_per_step": mean(series_of(numbers, "step_time").values),
        }
    )


def _series(run: Run, numbers: DataFrame) -> dict[str, list[float | None]]:
    """The logged numbers that are kept, as columns over the logged steps."""
    steps = sorted({line.step for line in run.metrics if line.stage == RL})
    by_step: dict[str, Mapping[int, float]] = {}
    for name in _SERIES:
        series = series_of(numbers, name)
        by_step[name] = dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))
    seconds = curation_seconds(numbers)
    by_step["curation_seconds"] = dict(zip(seconds.steps.tolist(), seconds.values.tolist(), strict=True))
    by_step["true_reward"] = true_rewards(numbers)
    columns = {name: [values.get(step) for step in steps] for name, values in by_step.items()}
    return {"step": [*steps], **columns}


def _detection(numbers: DataFrame) -> dict[str, Any]:
    """How well wrong rewards were found in the whole run; the precision is that of the rows that were changed."""
    rows = marked_rows(numbers, CHANGED)
    found: dict[str, Any] = {}
    for score, ranking in whole_run(areas_of(numbers)).items():
        found[score] = {"auroc": ranking.auroc, "auprc": ranking.auprc, "generations": ranking.generations}
    found["precision_among_replaced"] = rows.precision if rows.in_pair_wrong else None
    found["base_rate"] = rows.base_rate
    return found


def _evenly_spread(generations: Sequence[RolloutStep], count: int) -> list[RolloutStep]:
    """At most `count` generations, evenly spread from the first to the last."""
    if not generations:
        return []
    places = np.linspace(0, len(generations) - 1, min(count, len(generations)))
    return [generations[place] for place in places.round().astype(int)]


def _snapshot(step: RolloutStep) -> dict[str, Any]:
    """The rows of one generation as lists, for rank plots; `corrupted` None where it is not known of all."""
    return {
        "step": step.step,
        "score": step.score.tolist(),
        "reward": step.reward.tolist(),
        "corrupted": step.flipped.tolist() if step.flip_known.all() else None,
    }


def rounded(value: Mapping[str, Any]) -> dict[str, Any]:
    """The same with every float at six significant digits, and NaN as None: compact, and far below any noise."""
    text = json.dumps(finite(value))
    short: dict[str, Any] = json.loads(text, parse_float=lambda number: float(f"{float(number):.6g}"))
    return short


# --- read back --------------------------------------------------------------------------------------------------------


def read_results(folder: Path) -> tuple[RunResult, ...]:
    """Every result of the comparison in `folder`, by level, arm and seed."""
    found = [parse_result(value, path) for value, path in results(folder)]
    return tuple(sorted(found, key=lambda result: (result.level, result.arm, result.seed)))


def parse_result(value: Mapping[str, Any], path: Path) -> RunResult:
    """The result of one run as a file holds it; one that failed may have nothing but its name."""
    if value["schema_version"] != SCHEMA_VERSION:
        raise RunFolderError(f"{path}: schema_version: expected {SCHEMA_VERSION}, got {quote(value['schema_version'])}")
    finished = value["status"] == "finished"
    return RunResult(
        level=value["level"],
        arm=value["arm"],
        seed=value["seed"],
        finished=finished,
        error=str(value.get("error") or ("" if finished else "no reason was recorded")),
        same_run_as=value.get("same_run_as", ""),
        curator=value.get("curator", "unknown"),
        settings=value.get("settings") or {},
        rows=tuple(_rows(value)),
        snapshots=tuple(_read_snapshot(item) for item in value.get("snapshots", ())),
    )


def _rows(value: Mapping[str, Any]) -> Iterator[Row]:
    """The numbers of a result: of its evaluations, of its series, and of the run as a whole (stage "run", step 0)."""
    for line in value.get("evaluations", ()):
        yield from evaluation_rows(parse_evaluation(line))
    series = value.get("series", {})
    for name, values in series.items():
        if name != "step":
            for step, number in zip(series["step"], _floats(values), strict=True):
                yield "", RL, step, name, number
    detection = dict(value.get("detection") or {})
    of_run = {
        "changed_precision": detection.pop("precision_among_replaced", None),
        "base_rate": detection.pop("base_rate", None),
        **{name: value.get(name) for name in OF_RUN},
    }
    for score, entry in detection.items():
        of_run[f"auroc/{score}"] = entry["auroc"]
        of_run[f"auprc/{score}"] = entry["auprc"]
    for name, number in zip(of_run, _floats(of_run.values()), strict=True):
        yield "", WHOLE_RUN, 0, name, number


def _floats(values: Iterable[float | None]) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]


def _read_snapshot(item: Mapping[str, Any]) -> Snapshot:
    corrupted = item["corrupted"]
    return Snapshot(
        score=np.array(item["score"], dtype=np.float64),  # None is NaN
        reward=np.array(item["reward"], dtype=np.float64),
        corrupted=None if corrupted is None else np.array(corrupted, dtype=np.bool_),
    )


# --- all of them ------------------------------------------------------------------------------------------------------


def results(folder: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """The content of every result under `folder`, as its file holds it, and that file."""
    root = ComparisonFolder(folder).results
    compact = Path(folder) / COMPACT
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
    rows = []
    for result, _ in results(folder):
        if (result["level"], result["arm"]) not in drawn:
            result["snapshots"] = []
        rows.append(json.dumps(result, ensure_ascii=False))
    write_table(path, pa.table({"result": rows}), compression_level=19, use_dictionary=False)
