"""Scores of an evaluation's rows: avg@k and pass@k with intervals over problems, averages, curves; and how well
a reward source tells the chosen response of a pair from the rejected one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from geoalign.lab.evaluate.folder import Part, Row
from geoalign.lab.evaluate.sets import PromptedSet
from geoalign.lab.models.accuracy import _by_problem, accuracy_interval, mean_of_known, right_answers
from geoalign.statistics import (
    Interval,
    clustered_proportion,
    ema,
    mean_interval,
    pass_at_k,
    powers_of_two,
    wilson_interval,
)

# The paper reports the average over the last five evaluations (appendix, "Evaluation and Metrics").
LAST = 5


@dataclass(frozen=True)
class SetScores:
    """What one model came to on one set: benchmarks have `accuracy` (avg@k, with a 95% interval over problems) and
    `pass_at_k`, dialogues a mean `reward`, where they were scored; `left_out` problems by reason, `counts` of no
    answer, time-outs."""

    name: str
    kind: Literal["benchmark", "dialogue"]
    problems: int
    left_out: Mapping[str, int]
    samples: int
    responses: int
    correct: int | None
    accuracy: Interval | None
    interval: Literal["wilson", "clustered"] | None
    pass_at_k: Mapping[int, Interval]
    reward: Interval | None
    unscored: int
    truncated: int
    tokens: float
    counts: Mapping[str, int]


@dataclass(frozen=True)
class CheckpointCurve:
    """One number over the checkpoints of a run: `smoothed` is s_t = 0.6 s_{t-1} + 0.4 x_t, `last` the mean of the
    last five values, or of as many as there are (`last_count`)."""

    steps: tuple[int, ...]
    values: tuple[float, ...]
    smoothed: tuple[float, ...]
    last: float
    last_count: int


def score(prompted_set: PromptedSet, part: Part) -> SetScores:
    """The scores of a model on a set from all its rows."""
    of_set, rows = prompted_set.set, part.rows
    right, accuracy, how, passed, benchmark = [0], None, None, {}, of_set.kind == "benchmark"
    if benchmark:
        right = right_answers(rows, of_set.samples)
        accuracy, how = accuracy_interval(right, of_set.samples)
        passed = {k: pass_interval(right, of_set.samples, k) for k in powers_of_two(of_set.samples)}
    scored = not benchmark and all(row.reward is not None for row in rows)
    return SetScores(
        name=of_set.name,
        kind=of_set.kind,
        problems=len(prompted_set.prompts),
        left_out=prompted_set.left_out,
        samples=of_set.samples,
        responses=len(rows),
        correct=sum(right) if benchmark else None,
        accuracy=accuracy,
        interval=how,
        pass_at_k=passed,
        reward=_reward(_by_problem(rows, of_set.samples)) if scored else None,
        unscored=sum(row.reward is not None and math.isnan(row.reward) for row in rows),
        truncated=sum(row.truncated for row in rows),
        tokens=math.fsum(row.tokens for row in rows) / len(rows),
        counts=part.counts,
    )


def pass_interval(right: Sequence[int], samples: int, k: int) -> Interval:
    """Mean over problems of the unbiased pass@k with Student's interval over problems, cut to [0, 1]; Wilson's where
    all problems have the same value, and there is no spread to judge by."""
    values = np.array([pass_at_k(samples, count, k) for count in right])
    if values.min() == values.max():
        return wilson_interval(float(values[0]) * len(values), len(values))
    return clustered_proportion(values, np.ones(len(values)))


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


def curve(points: Mapping[int, float]) -> CheckpointCurve:
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


def _reward(groups: Sequence[Sequence[Row]]) -> Interval:
    means = [mean_of_known([row.reward for row in group]) for group in groups]
    return mean_interval(np.array([math.nan if mean is None else mean for mean in means]))
