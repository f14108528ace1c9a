"""Scores of an evaluation's rows: avg@k and pass@k with intervals over problems, averages, curves; and how well
a reward source tells the chosen response of a pair from the rejected one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, TypeVar

import numpy as np

from geoalign.answers.reward_source import RewardSource
from geoalign.errors import ConfigError
from geoalign.lab.data.task import PreferencePair
from geoalign.lab.evaluate.folder import Part, Row
from geoalign.lab.evaluate.sets import PromptedSet
from geoalign.lab.models.answering import Answer
from geoalign.statistics import (
    Interval,
    clustered_proportion,
    ema,
    mean_interval,
    mean_pass_at_k,
    pass_at_k,
    powers_of_two,
    proportion_over_groups,
    wilson_interval,
)

_Item = TypeVar("_Item")

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


def evaluation_values(
    answers: Sequence[Answer], samples: int, *, binary: bool, gold: Sequence[float | None]
) -> dict[str, Any]:
    """The values of one line of `evaluation.jsonl` from answers by problem, then by sample; only a `binary` reward
    has accuracy, its interval over problems, and pass@k. `gold` is what each answer is truly worth."""
    right = right_answers(answers, samples)
    interval, _ = accuracy_interval(right, samples)
    passed = {str(k): mean_pass_at_k(right, samples=samples, k=k) for k in powers_of_two(samples)}
    return {
        "accuracy": sum(right) / len(answers) if binary else None,
        "accuracy_low": interval.low if binary else None,
        "accuracy_high": interval.high if binary else None,
        "correct": sum(right) if binary else None,
        "count": len(answers),
        "reward": mean_of_known([scored.reward for scored in answers]),
        "gold_utility": mean_of_known(gold),
        "samples": samples,
        "pass_at_k": passed if binary else None,
    }


def right_answers(rows: Sequence[Any], samples: int) -> list[int]:
    """How many of the responses to each problem are right; `rows` go by problem, with `samples` to each."""
    return [sum(bool(row.correct) for row in group) for group in _by_problem(rows, samples)]


def accuracy_interval(right: Sequence[int], samples: int) -> tuple[Interval, Literal["wilson", "clustered"]]:
    """The share of right responses with the 95% interval over problems, and how it was made
    (`proportion_over_groups`)."""
    return proportion_over_groups(right, [samples] * len(right))


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


def _by_problem(rows: Sequence[_Item], samples: int) -> list[Sequence[_Item]]:
    return [rows[start : start + samples] for start in range(0, len(rows), samples)]


def mean_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return math.fsum(known) / len(known) if known else None


def _reward(groups: Sequence[Sequence[Row]]) -> Interval:
    means = [mean_of_known([row.reward for row in group]) for group in groups]
    return mean_interval(np.array([math.nan if mean is None else mean for mean in means]))


def pair_accuracy(
    source: RewardSource, pairs: Sequence[PreferencePair], takes_shortcut: Callable[[str], bool] | None
) -> dict[str, float | int | None]:
    """Share of the pairs whose chosen response has the higher score (equal scores count half); None of no pair.

    `with_shortcut`: of those whose chosen response alone takes the task's shortcut; `against_shortcut`: whose rejected
    one alone does; far below `accuracy`, the model has learned the shortcut.
    """
    prompts, answers = [list(pair.prompt) for pair in pairs], [""] * len(pairs)
    chosen = source.score([pair.chosen for pair in pairs], answers, prompts=prompts)
    rejected = source.score([pair.rejected for pair in pairs], answers, prompts=prompts)
    by_side: dict[int, list[float]] = {-1: [], 0: [], 1: []}
    for pair, high, low in zip(pairs, chosen, rejected, strict=True):
        if not math.isnan(high) and not math.isnan(low):
            # 1: the chosen response alone takes the shortcut, -1: the rejected one alone.
            side = 0 if takes_shortcut is None else takes_shortcut(pair.chosen) - takes_shortcut(pair.rejected)
            by_side[side].append(1.0 if high > low else 0.5 if high == low else 0.0)
    everything = [right for side in by_side.values() for right in side]
    return {
        "accuracy": mean_of_known(everything),
        "count": len(everything),
        "with_shortcut": mean_of_known(by_side[1]),
        "with_shortcut_count": len(by_side[1]),
        "against_shortcut": mean_of_known(by_side[-1]),
        "against_shortcut_count": len(by_side[-1]),
        "unscored": len(pairs) - len(everything),
    }


def hold_out_prompts(
    pairs: Sequence[PreferencePair], share: float, *, most: int, seed: int
) -> tuple[list[PreferencePair], list[PreferencePair]]:
    """Splits pairs into those for training and those held out, all pairs of a prompt on the same side.

    Prompts are held out, in an order of `seed`, until a `share` of the pairs or `most` is reached; both sides get one.
    """
    by_prompt: dict[tuple[tuple[str, str], ...], list[PreferencePair]] = {}
    for pair in pairs:
        key = tuple((message["role"], message["content"]) for message in pair.prompt)
        by_prompt.setdefault(key, []).append(pair)
    if len(by_prompt) < 2:
        raise ConfigError(f"preference pairs: expected at least two different prompts, got {len(by_prompt)}")
    groups = list(by_prompt.values())
    Random(seed).shuffle(groups)
    wanted = min(share * len(pairs), most)
    held_out: list[PreferencePair] = list(groups[0])
    cut = 1
    while cut < len(groups) - 1 and len(held_out) < wanted:
        held_out += groups[cut]
        cut += 1
    return [pair for group in groups[cut:] for pair in group], held_out
