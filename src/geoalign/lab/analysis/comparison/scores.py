"""Numbers of cells: evaluation curves, final scores, means over steps; detection over the seeds of an arm."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from geoalign.lab.analysis.comparison.table import Curve, Detection, DetectionRow
from geoalign.lab.analysis.statistics import Interval, paired_difference, seed_interval
from geoalign.lab.store.columns import Floats, Ints
from geoalign.lab.store.comparison_results import Cell
from geoalign.lab.store.logs import Evaluation
from geoalign.lab.store.run import Series

BEFORE = "before_rl"


def evaluation_series(cell: Cell, metric: str, *, before: bool = True) -> Series:
    """The metric over RL steps, unweighted mean over the evaluation sets; the evaluation before RL is at step 0.

    Of several evaluations of a set at one step the one after RL counts, else the last. A step at which a set is missing
    is left out, so that no jump comes from another choice of sets; sets without the metric are no sets.
    """
    latest: dict[int, dict[str, tuple[bool, float]]] = {}
    for line in cell.evaluations:
        value = float(getattr(line, metric))
        if math.isnan(value) or (line.stage == BEFORE and not before):
            continue
        step = 0 if line.stage == BEFORE else line.step
        final = line.stage == "after_rl"
        known = latest.setdefault(step, {}).get(line.set)
        if known is None or final or not known[0]:
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
            known = lines.get(line.set)
            if known is None or (line.step, line.stage == "after_rl") >= (known.step, known.stage == "after_rl"):
                lines[line.set] = line
    if not lines:
        return {}
    latest = max(line.step for line in lines.values())
    rows = [line.pass_at_k for line in lines.values() if line.step == latest]
    common = set.intersection(*(set(row) for row in rows))
    return {k: float(np.mean([row[k] for row in rows])) for k in sorted(common)}


def mean(values: Floats) -> float:
    """The mean of what is known; NaN without anything."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def median(values: Floats) -> float:
    """The median of what is known; NaN without anything."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else math.nan


def by_generation(values: Floats, updates: float | None) -> Floats:
    """The mean over the updates made on each generation, [generations]; NaN where none is known.

    The first of them is made by the policy that generated, so its KL and clip fraction are 0 by construction: a median
    over single updates would be 0 with two updates a generation, however far the policy moves.

    Args:
        values: one for each update, in order.
        updates: updates per generation; None, or no whole number: the values as they are.
    """
    if updates is None or updates != int(updates) or updates < 2:
        return values
    size = int(updates)
    return np.array([mean(values[start : start + size]) for start in range(0, len(values), size)])


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
    known = ~np.isnan(values)
    unique, index = np.unique(steps[known].astype(np.int64), return_inverse=True)
    sums = np.bincount(index, weights=values[known], minlength=len(unique))
    return Series(unique, sums / np.bincount(index, minlength=len(unique)))


OWN_SCORE = "score"
# The pair count as a score, and turned round: the control is whichever ranks better.
PAIR_COUNT_SCORES = ("pair_count", "fewest_pairs")


def detection(cells: Sequence[Cell]) -> Detection | None:
    """Detection over the seeds; None where no seed holds a score's AUROC."""
    names = list(dict.fromkeys(name for cell in cells for name in cell.detection))
    areas = {name: {cell.seed: _quality(cell, name)[0] for cell in cells} for name in names}
    if not any(not math.isnan(value) for column in areas.values() for value in column.values()):
        return None
    rows = tuple(
        DetectionRow(
            score=name,
            auroc=_share_interval(list(areas[name].values())),
            auprc=_share_interval([_quality(cell, name)[1] for cell in cells]),
            seeds=sum(not math.isnan(value) for value in areas[name].values()),
        )
        for name in names
    )
    controls = [row for row in rows if row.score in PAIR_COUNT_SCORES and not math.isnan(row.auroc.estimate)]
    control = max(controls, key=lambda row: row.auroc.estimate).score if controls else ""
    return Detection(
        rows=rows,
        precision=_share_interval([cell.replaced_precision for cell in cells]),
        base_rate=_share_interval([cell.base_rate for cell in cells]),
        control=control,
        gain=paired_difference(areas.get(OWN_SCORE, {}), areas.get(control, {})),
    )


def _share_interval(values: Sequence[float]) -> Interval:
    """The interval over seeds of a quantity from 0 to 1, cut to that range."""
    interval = seed_interval(values)
    return Interval(interval.estimate, *(float(np.clip(end, 0, 1)) for end in (interval.low, interval.high)))


def _quality(cell: Cell, name: str) -> tuple[float, float]:
    quality = cell.detection.get(name)
    return (quality.auroc, quality.auprc) if quality else (math.nan, math.nan)
