"""A run folder in memory, finished, still growing, or cut off by a kill: what the figures and tables read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.files.json_files import float_or_nan, read_lines, read_written_yaml
from geoalign.files.rollout_step import RolloutStep
from geoalign.intervals import Interval
from geoalign.lab.runs.folder import DETAILS, RunFolder, step_files
from geoalign.lab.runs.rollouts import read_rollouts
from geoalign.statistics import wilson_interval


@dataclass(frozen=True, eq=False)
class Run:
    """A run folder as it is, finished or not: settings as read and as text, readable rollout files by rising step, the
    paths of detail files by step; a run writes its summary.json at its end."""

    folder: Path
    config: Mapping[str, Any]
    config_text: str
    versions: Mapping[str, Any]
    metrics: tuple[MetricRow, ...]
    rollouts: tuple[RolloutStep, ...]
    details: Mapping[int, Path]
    evaluations: tuple[Evaluation, ...]
    finished: bool

    @property
    def curator(self) -> Mapping[str, Any]:
        """The `curator` section of the config; empty where there is none."""
        section = self.config.get("curator")
        return section if isinstance(section, Mapping) else {}

    @property
    def curator_name(self) -> str:
        return str(self.curator.get("type", "unknown"))


def read_run(folder: Path) -> Run:
    """Reads a run folder of schema version 1; prompts, responses and details stay in their files."""
    folder = Path(folder)
    if not folder.is_dir():
        raise RunFolderError(f"run folder: expected a folder, got {folder}")
    files = RunFolder(folder)
    config, config_text = read_written_yaml(files.config)
    return Run(
        folder=folder,
        config=config,
        config_text=config_text,
        versions=files.read_versions(),
        metrics=tuple(map(parse_metrics, read_lines(files.metrics))),
        rollouts=tuple(read_rollouts(files.rollouts)),
        details=dict(step_files(files.details, DETAILS)),
        evaluations=tuple(map(parse_evaluation, read_lines(files.evaluation))),
        finished=files.summary.is_file(),
    )


# Longer than any line of metrics.
_TAIL_BYTES = 16384


@dataclass(frozen=True)
class MetricRow:
    """One line of metrics.jsonl: the numbers logged at one step of one stage; a null is NaN."""

    stage: str
    step: int
    values: Mapping[str, float]


@dataclass(frozen=True)
class Evaluation:
    """One line of evaluation.jsonl; `accuracy` is NaN, `correct` None where the reward is no verdict of right or wrong.

    `reward` is the mean of the uncorrupted reward (the proxy reward where it is a learned model), `gold_utility` that
    of the task's known utility, `count` the answers behind the line, `samples` the answers per problem.
    `accuracy_low` and `accuracy_high` are the ends of the 95% interval over problems; NaN in lines of earlier versions.
    """

    step: int
    stage: str
    set: str
    accuracy: float
    correct: int | None
    count: int
    reward: float = math.nan
    gold_utility: float = math.nan
    samples: int | None = None
    pass_at_k: Mapping[int, float] = field(default_factory=dict)
    accuracy_low: float = math.nan
    accuracy_high: float = math.nan

    @property
    def values(self) -> dict[str, float]:
        """What is known of accuracy, reward and gold utility."""
        values = {"accuracy": self.accuracy, "reward": self.reward, "gold_utility": self.gold_utility}
        return {name: value for name, value in values.items() if not math.isnan(value)}


def parse_metrics(line: Mapping[str, Any]) -> MetricRow:
    numbers = {
        key: float_or_nan(value)
        for key, value in line.items()
        if key not in ("stage", "step") and isinstance(value, int | float | None) and not isinstance(value, bool)
    }
    return MetricRow(line["stage"], line["step"], numbers)


def parse_evaluation(line: Mapping[str, Any]) -> Evaluation:
    """A line of evaluation.jsonl; what lines of earlier versions lack is NaN or None."""
    passed = {int(k): float(value) for k, value in (line.get("pass_at_k") or {}).items()}
    return Evaluation(
        step=line["step"],
        stage=line["stage"],
        set=line["set"],
        accuracy=float_or_nan(line["accuracy"]),
        correct=line["correct"],
        count=line["count"],
        reward=float_or_nan(line.get("reward")),
        gold_utility=float_or_nan(line.get("gold_utility")),
        samples=line.get("samples"),
        pass_at_k=dict(sorted(passed.items())),
        accuracy_low=float_or_nan(line.get("accuracy_low")),
        accuracy_high=float_or_nan(line.get("accuracy_high")),
    )


def last_step(metrics: Path, stage: str = "rl") -> int:
    """The step of the last whole line of a `metrics.jsonl` if it is of that stage, otherwise 0."""
    if not metrics.is_file():
        return 0
    with metrics.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        lines = file.read().rpartition(b"\n")[0].split(b"\n")
    try:
        line = json.loads(lines[-1])
    except ValueError:  # none, or one longer than the tail
        return 0
    return int(line["step"]) if line.get("stage") == stage else 0


def accuracy_of_evaluation(evaluation: Evaluation | None) -> Interval | None:
    """The accuracy of an evaluation's line with its interval over problems; None where there is none.

    Lines of earlier versions have no interval and no counts by problem: with one response to each problem Wilson's is
    right, with several (or an unknown number) the interval is unknown.
    """
    if evaluation is None or evaluation.correct is None:
        return None
    if not math.isnan(evaluation.accuracy_low):
        return Interval(evaluation.accuracy, evaluation.accuracy_low, evaluation.accuracy_high)
    if evaluation.samples == 1:
        return wilson_interval(evaluation.correct, evaluation.count)
    return Interval(evaluation.accuracy, math.nan, math.nan)
