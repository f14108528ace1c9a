"""Numbers of whole evaluation curves: the mean over a curve, when it reaches a value, another metric there.

The final score of a curve that still rises is mostly speed of learning; these say how far that is so.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import trapezoid

from geoalign.lab.analysis.comparison.scores import evaluation_series
from geoalign.lab.analysis.statistics import auroc
from geoalign.lab.store.columns import Floats
from geoalign.lab.store.comparison_results import Cell


def mean_over_curve(cell: Cell, metric: str) -> float:
    """The area under the evaluation curve by the trapezoid rule, divided by its steps: the mean score during training.

    NaN with fewer than two evaluations.
    """
    curve = evaluation_series(cell, metric)
    if len(curve.steps) < 2:
        return math.nan
    return float(trapezoid(curve.values, curve.steps) / (curve.steps[-1] - curve.steps[0]))


def step_of(cell: Cell, metric: str, value: float) -> float:
    """The step at which the curve first reaches a value, linear between evaluations; NaN where it never does.

    A curve that begins at or above the value reaches it at its first step.
    """
    curve = evaluation_series(cell, metric)
    reached = np.flatnonzero(curve.values >= value)
    if not len(reached):
        return math.nan
    at = int(reached[0])
    if at == 0:
        return float(curve.steps[0])
    below, above = curve.values[at - 1], curve.values[at]
    return float(curve.steps[at - 1] + (value - below) / (above - below) * (curve.steps[at] - curve.steps[at - 1]))


def at_equal(cell: Cell, metric: str, value: float, other: str) -> float:
    """The other metric at the step at which this one first reaches a value, linear between evaluations.

    What a curator did to the gold utility is hidden by how fast it raised the proxy reward; at equal proxy reward it
    is not. NaN where the value is never reached or the other metric was not measured there.
    """
    step, curve = step_of(cell, metric, value), evaluation_series(cell, other)
    if math.isnan(step) or not len(curve.steps) or not curve.steps[0] <= step <= curve.steps[-1]:
        return math.nan
    return float(np.interp(step, curve.steps, curve.values))


def auroc_at_reward(cell: Cell, reward: float) -> float:
    """How a cell's score ranks corrupted rows among the rows of one observed reward, mean over its snapshots.

    A score that finds wrong answers instead of wrong rewards lies above 1/2 where the reward says right and below it
    where the reward says wrong, so that both together look like chance. NaN where no snapshot holds both kinds.
    """
    areas: list[float] = []
    for snapshot in cell.snapshots:
        if snapshot.corrupted is not None:
            rows = np.isclose(snapshot.reward, reward)
            areas.append(auroc(snapshot.score[rows], snapshot.corrupted[rows]))
    known: Floats = np.array([area for area in areas if not math.isnan(area)])
    return float(known.mean()) if len(known) else math.nan
