"""The lines of a run's two logs, `metrics.jsonl` and `evaluation.jsonl`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geoalign.lab.store.values import float_or_nan, number

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


def parse_metrics(line: Mapping[str, Any]) -> MetricRow:
    """The line as a `MetricRow`; what is no number is left out."""
    values = {key: math.nan if value is None else number(value) for key, value in line.items()}
    del values["stage"], values["step"]
    return MetricRow(line["stage"], line["step"], {key: value for key, value in values.items() if value is not None})


def parse_evaluation(line: Mapping[str, Any]) -> Evaluation:
    """The line as an `Evaluation`."""
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
