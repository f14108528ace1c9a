"""Numbers of cells: evaluation curves, final scores, means over steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from geoalign.lab.analysis.comparison.table import Curve
from geoalign.lab.analysis.statistics import known
from geoalign.lab.store.columns import Floats, Ints
from geoalign.lab.store.comparison import Cell
from geoalign.lab.store.run import Evaluation, Series

BEFORE = "before_rl"


@lru_cache(maxsize=64)  # most numbers of a cell are of its curves
def evaluation_series(cell: Cell, metric: str, *, before: bool = True) -> Series:
    """The metric over RL steps, unweighted mean over the evaluation sets; the evaluation before RL is at step 0.

    Of several evaluations of a set at one step the one after RL counts, else the last. A step that lacks a set is left
    out, so that no jump comes from another choice of sets; sets without the metric are no sets.
    """
    latest: dict[int, dict[str, tuple[bool, float]]] = {}
    for line in cell.evaluations:
        value = float(getattr(line, metric))
        if math.isnan(value) or (line.stage == BEFORE and not before):
            continue
        step = 0 if line.stage == BEFORE else line.step
        final = line.stage == "after_rl"
        earlier = latest.setdefault(step, {}).get(line.set)
        if earlier is None or final or not earlier[0]:
            latest[step][line.set] = (final, value)
    sets = {name for at_step in latest.values() for name in at_step}
    steps = sorted(step for step, at_step in latest.items() if set(at_step) == sets)
    values = [float(np.mean([value for _, value in latest[step].values()])) for step in steps]
    return Series(np.array(steps, dtype=np.int64), np.array(values))


def final_score(cell: Cell, metric: str, last: int) -> tuple[float, int]:
    """Mean of the last evaluations during and after RL, and how many there were (at most `last`); NaN without any."""
    values = evaluation_series(cell, metric, before=False).values[-last:]
    return (float(values.mean()) if len(values) else math.nan), len(values)


def pass_at_k(cell: Cell) -> dict[int, float]:
    """pass@k of the last evaluation that measured it, unweighted mean over its sets, for every k that all sets have."""
    lines: dict[str, Evaluation] = {}
    for line in cell.evaluations:
        if line.pass_at_k and line.stage != BEFORE:
            earlier = lines.get(line.set)
            if earlier is None or (line.step, line.stage == "after_rl") >= (earlier.step, earlier.stage == "after_rl"):
                lines[line.set] = line
    if not lines:
        return {}
    latest = max(line.step for line in lines.values())
    rows = [line.pass_at_k for line in lines.values() if line.step == latest]
    common = set.intersection(*(set(row) for row in rows))
    return {k: float(np.mean([row[k] for row in rows])) for k in sorted(common)}


def median(values: Floats) -> float:
    numbers = known(values)
    return float(np.median(numbers)) if len(numbers) else math.nan


def by_generation(values: Floats, updates: float | None) -> Floats:
    """The mean over the updates made on each generation, [generations]; NaN where none is known.

    The first update has KL and clip fraction 0 by construction, which would decide a median over single updates.
    """
    if updates is None or updates != int(updates) or updates < 2:
        return values
    size = int(updates)
    rows = np.append(values, np.full(-len(values) % size, np.nan)).reshape(-1, size)
    counts = (~np.isnan(rows)).sum(axis=1)
    return np.divide(np.nansum(rows, axis=1), counts, out=np.full(len(rows), np.nan), where=counts > 0)


def stacked(cells: Sequence[Cell], series: Sequence[Series]) -> Curve:
    """The series of several seeds over the union of their steps."""
    steps: Ints = np.unique(np.concatenate([item.steps for item in series])) if series else np.empty(0, dtype=np.int64)
    values = np.full((len(series), len(steps)), np.nan)
    for row, item in enumerate(series):
        values[row, np.searchsorted(steps, item.steps)] = item.values
    return Curve(tuple(cell.seed for cell in cells), steps.astype(np.int64), values)


def series_of(cell: Cell, name: str) -> Series:
    """A logged quantity over its steps, missing ones left out; of rows with equal steps the mean (several updates)."""
    steps, values = cell.column("step"), cell.column(name)
    unique, index = np.unique(steps[~np.isnan(values)].astype(np.int64), return_inverse=True)
    sums = np.bincount(index, weights=known(values), minlength=len(unique))
    return Series(unique, sums / np.bincount(index, minlength=len(unique)))
