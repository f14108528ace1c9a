"""Numbers of one run: along its evaluation curves, and of its snapshots.

The final score of a curve that still rises is mostly speed of learning. What a curator did to the gold utility is
hidden by how fast it raised the proxy reward. At equal proxy reward it is not hidden.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from geoalign.statistics import PairedDifference, auroc, mean
from tools.evidence.results import Level, OneRun

# The proxy rewards at which gold utility is compared.
PROXIES = (0.5, 1.0, 1.5, 2.0)


def step_of(run: OneRun, metric: str, value: float) -> float:
    """The step at which the curve first reaches a value, linear between evaluations; NaN where it never does.

    A curve that begins at or above the value reaches it at its first step.
    """
    curve = run.curve(metric)
    reached = np.flatnonzero(curve.values >= value)
    if not len(reached):
        return math.nan
    at = int(reached[0])
    if at == 0:
        return float(curve.steps[0])
    below = curve.values[at - 1]
    above = curve.values[at]
    part = (value - below) / (above - below)
    return float(curve.steps[at - 1] + part * (curve.steps[at] - curve.steps[at - 1]))


def at_equal(run: OneRun, metric: str, value: float, other: str) -> float:
    """The other metric at the step at which this one first reaches a value, linear between evaluations.

    NaN where the value is never reached, or the other metric was not measured there.
    """
    step = step_of(run, metric, value)
    curve = run.curve(other)
    if math.isnan(step) or not len(curve.steps) or not curve.steps[0] <= step <= curve.steps[-1]:
        return math.nan
    return float(np.interp(step, curve.steps, curve.values))


def last_gold(run: OneRun) -> float:
    """Gold utility, mean of the last five evaluations."""
    return run.final_score("gold_utility", 5)


def gold_at(run: OneRun, proxy: float) -> float:
    """Gold utility where the run first reaches a proxy reward."""
    return at_equal(run, "reward", proxy, "gold_utility")


def gold_beside_oracle(level: Level, arm: str, proxies: tuple[float, ...] = PROXIES) -> Iterator[PairedDifference]:
    """Gold utility minus the oracle's where each first reaches each of some proxy rewards."""
    for proxy in proxies:
        yield level.minus(arm, lambda run, at=proxy: gold_at(run, at), "oracle")


def unchanged(level: Level, arm: str) -> Iterator[bool]:
    """Of each generation of an arm whether the curator left its advantages as they were."""
    for run in level.finished(arm):
        given = run.logged("advantage_cosine")
        observed = run.logged("observed_advantage_cosine")
        by_step = dict(zip(observed.steps, observed.values, strict=True))
        for step, value in zip(given.steps, given.values, strict=True):
            yield bool(value == by_step.get(step))


def auroc_at_reward(run: OneRun, reward: float) -> float:
    """How a run's score ranks corrupted rows among the rows of one observed reward, mean over its snapshots.

    A score that finds wrong answers instead of wrong rewards lies above 1/2 where the reward says right and below it
    where the reward says wrong, so that both together look like chance. NaN where no snapshot holds both kinds.
    """
    areas = []
    for snapshot in run.result.snapshots:
        if snapshot.corrupted is None:
            continue
        rows = np.isclose(snapshot.reward, reward)
        if rows.any():
            areas.append(auroc(snapshot.score[rows], snapshot.corrupted[rows]))
    return mean(areas)
