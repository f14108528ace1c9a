"""The lines of a run's two logs, `metrics.jsonl` and `evaluation.jsonl`.

What is damaged is refused, with the file and the line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.lab.store.strict_json import strict_json
from geoalign.lab.store.values import number, the_mapping, the_number, the_share, the_text, the_whole, whole
from geoalign.shown import brief, shown

# Longer than any line of metrics.
_TAIL_BYTES = 16384


@dataclass(frozen=True)
class MetricRow:
    """One line of metrics.jsonl: the numbers logged at one step of one stage; a null is NaN.

    `left_out`: names of the values that are no numbers, or none that can be reckoned with (`number`).
    """

    stage: str
    step: int
    values: Mapping[str, float]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """One line of evaluation.jsonl.

    Attributes:
        accuracy: NaN where the reward is no verdict of right or wrong; `correct` is None then.
        count: answers behind the line.
        reward: mean of the uncorrupted reward (the proxy reward where it is a learned model).
        gold_utility: mean of the task's known utility; NaN where it knows none.
        samples: answers per problem.
        pass_at_k: pass@k by k; empty where it was not measured.
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

    @property
    def values(self) -> dict[str, float]:
        """What is known of accuracy, reward and gold utility."""
        values = {"accuracy": self.accuracy, "reward": self.reward, "gold_utility": self.gold_utility}
        return {name: value for name, value in values.items() if not math.isnan(value)}


def parse_metrics(line: Mapping[str, Any], where: str) -> MetricRow:
    """The line as a `MetricRow`.

    Raises:
        RunFolderError: no stage or no whole step; `where` is named.
    """
    stage, step = line.get("stage"), whole(line.get("step"))
    if not isinstance(stage, str) or step is None:
        raise RunFolderError(f"metrics: expected 'stage' and a whole 'step', got {shown(line, 120)} in {where}")
    numbers = {key: number(value) for key, value in line.items() if key not in ("stage", "step")}
    values = {
        key: math.nan if value is None else value
        for key, value in numbers.items()
        if line[key] is None or value is not None
    }
    return MetricRow(stage, step, values, tuple(key for key in numbers if key not in values))


def parse_evaluation(line: Mapping[str, Any], where: str) -> Evaluation:
    """The line as an `Evaluation`.

    Raises:
        RunFolderError: a key is missing or of another type, a share lies outside 0 to 1, or `correct` does not fit
            `count`; `where` is named.
    """
    try:
        row = _evaluation(line)
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(
            f"evaluation: expected step, stage, set, accuracy, correct and count, got {shown(line, 120)} "
            f"({brief(error, 120)}) in {where}"
        ) from error
    if row.correct is None and not math.isnan(row.accuracy):
        raise RunFolderError(f"correct: expected a number where there is an accuracy, got null in {where}")
    if row.correct is not None and not 0 <= row.correct <= row.count:
        raise RunFolderError(f"correct: expected a number in 0..{row.count} (count), got {row.correct} in {where}")
    return row


def _evaluation(line: Mapping[str, Any]) -> Evaluation:
    passed = the_mapping(line.get("pass_at_k"), "pass_at_k")
    by_k = {int(k): the_share(value, "pass_at_k") for k, value in passed.items()}
    if any(whole(k, 1) is None for k in by_k):
        raise ValueError("pass_at_k of no number of answers")
    return Evaluation(
        step=the_whole(line["step"], "step"),
        stage=the_text(line["stage"], "stage"),
        set=the_text(line["set"], "set"),
        accuracy=the_share(line["accuracy"], "accuracy"),
        correct=None if line["correct"] is None else the_whole(line["correct"], "correct"),
        count=the_whole(line["count"], "count"),
        reward=the_number(line.get("reward"), "reward"),
        gold_utility=the_number(line.get("gold_utility"), "gold_utility"),
        samples=None if line.get("samples") is None else the_whole(line["samples"], "samples"),
        pass_at_k=dict(sorted(by_k.items())),
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
        line = strict_json(lines[-1])
    except ValueError:  # none, or one longer than the tail
        return 0
    return whole(line.get("step")) or 0 if isinstance(line, dict) and line.get("stage") == stage else 0
