"""Scores of an evaluation's rows: avg@k and pass@k with intervals over problems, averages, curves over checkpoints."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from geoalign.lab.evaluate.evaluated_models import EvaluatedModel
from geoalign.lab.evaluate.sets import PromptedSet
from geoalign.lab.models.accuracy import counts_by_problem, mean_of_known
from geoalign.lab.models.rows import ResponseRow
from geoalign.statistics import Interval, ema, mean_interval

# The paper reports the average over the last five evaluations (appendix, "Evaluation and Metrics").
LAST = 5


@dataclass(frozen=True, kw_only=True)
class SetScores:
    """What one model came to on one set.

    Attributes:
        problems: how many were asked; `left_out`: how many were not, by reason.
        samples: responses to each problem.
        responses, correct: how many there are, and of a benchmark how many are right.
        accuracy: avg@k of a benchmark, with its interval over problems; None for dialogues.
        pass_at_k: by k, each with its interval; empty for dialogues.
        reward: the mean of dialogues that were scored; None otherwise.
        counts: how many responses were not scored or not read, by reason.
        unscored, truncated: how many have no score, and how many reached the longest length.
        tokens: the mean length.
    """

    name: str
    kind: Literal["benchmark", "dialogue"]
    problems: int
    left_out: Mapping[str, int]
    samples: int
    responses: int
    correct: int | None
    accuracy: Interval | None
    pass_at_k: Mapping[int, Interval]
    reward: Interval | None
    counts: Mapping[str, int]
    unscored: int
    truncated: int
    tokens: float

    @property
    def value(self) -> Interval | None:
        """The accuracy of a benchmark, the reward of dialogues."""
        return self.accuracy if self.kind == "benchmark" else self.reward


def score(prompted_set: PromptedSet, rows: Sequence[ResponseRow]) -> SetScores:
    """The scores of a model on a set from all its rows."""
    counts = counts_by_problem(rows)
    benchmark = prompted_set.set.kind == "benchmark"
    return SetScores(
        name=prompted_set.set.name,
        kind=prompted_set.set.kind,
        problems=len(counts.total),
        left_out=prompted_set.left_out,
        samples=prompted_set.set.samples,
        responses=len(rows),
        correct=sum(counts.right) if benchmark else None,
        accuracy=counts.accuracy() if benchmark else None,
        pass_at_k={k: counts.pass_interval(k) for k in counts.ks} if benchmark else {},
        reward=None if benchmark else _mean_reward(rows),
        counts=Counter(row.reason for row in rows if row.reason is not None),
        unscored=sum(row.reward is not None and math.isnan(row.reward) for row in rows),
        truncated=sum(row.truncated for row in rows),
        tokens=math.fsum(row.tokens for row in rows) / len(rows),
    )


def _mean_reward(rows: Sequence[ResponseRow]) -> Interval | None:
    """The mean over prompts of the mean reward of a prompt's responses; None where nothing scored them."""
    if any(row.reward is None for row in rows):
        return None
    rewards: dict[str, list[float | None]] = defaultdict(list)
    for row in rows:
        rewards[row.id].append(row.reward)
    means = [mean_of_known(of_prompt) for of_prompt in rewards.values()]
    return mean_interval(np.array([math.nan if mean is None else mean for mean in means]))


def average(scores: Sequence[SetScores]) -> Interval | None:
    """The unweighted mean of the accuracies of all benchmarks; None where there is none.

    Sets are independent (Zou and Donner 2008): with m of them the mean less sqrt(sum of (estimate - low)^2) / m.
    """
    accuracies = [value.accuracy for value in scores if value.accuracy is not None]
    if not accuracies:
        return None
    mean = math.fsum(value.estimate for value in accuracies) / len(accuracies)
    below = math.hypot(*(value.estimate - value.low for value in accuracies)) / len(accuracies)
    above = math.hypot(*(value.high - value.estimate for value in accuracies)) / len(accuracies)
    return Interval(mean, max(0.0, mean - below), min(1.0, mean + above))


@dataclass(frozen=True)
class ModelScores:
    """What one model came to, set by set, and on average over the benchmarks (None: it has none)."""

    model: EvaluatedModel
    sets: tuple[SetScores, ...]
    average: Interval | None


@dataclass(frozen=True)
class CheckpointCurve:
    """One number over the checkpoints of a run: `smoothed` is s_t = 0.6 s_{t-1} + 0.4 x_t, `last` the mean of the
    last five values, or of as many as there are (`last_count`)."""

    steps: tuple[int, ...]
    values: tuple[float, ...]
    smoothed: tuple[float, ...]
    last: float
    last_count: int


@dataclass(frozen=True)
class RunCurves:
    """The curves of a run: of each set, and of the average where there are several benchmarks (None: there are not)."""

    sets: Mapping[str, CheckpointCurve]
    average: CheckpointCurve | None


@dataclass(frozen=True)
class EvaluationScores:
    """What an evaluation came to; `curves`: by run, where several checkpoints of it were evaluated."""

    models: tuple[ModelScores, ...]
    curves: Mapping[str, RunCurves]


def evaluation_scores(models: Sequence[ModelScores]) -> EvaluationScores:
    """The scores of all models with the curves over their checkpoints."""
    checkpoints: dict[str, dict[int, ModelScores]] = defaultdict(dict)
    for scored in models:
        if scored.model.series is not None and scored.model.step is not None:
            checkpoints[scored.model.series][scored.model.step] = scored
    curves = {series: _curves(by_step) for series, by_step in checkpoints.items() if len(by_step) > 1}
    return EvaluationScores(tuple(models), curves)


def _curves(by_step: Mapping[int, ModelScores]) -> RunCurves:
    """The curves over the checkpoints of one run, by their steps; all were evaluated on the same sets."""
    points: dict[str, dict[int, float]] = defaultdict(dict)
    averages: dict[int, float] = {}
    for step, scored in by_step.items():
        for of_set in scored.sets:
            if of_set.value is not None:
                points[of_set.name][step] = of_set.value.estimate
        if scored.average is not None and sum(of_set.kind == "benchmark" for of_set in scored.sets) > 1:
            averages[step] = scored.average.estimate
    return RunCurves(
        sets={name: curve(of_set) for name, of_set in points.items()}, average=curve(averages) if averages else None
    )


def curve(points: Mapping[int, float]) -> CheckpointCurve:
    """The curve through values by step."""
    steps = sorted(points)
    values = [points[step] for step in steps]
    last = values[-LAST:]
    return CheckpointCurve(
        steps=tuple(steps),
        values=tuple(values),
        smoothed=tuple(float(value) for value in ema(values)),
        last=math.fsum(last) / len(last),
        last_count=len(last),
    )
