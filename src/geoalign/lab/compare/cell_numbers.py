"""Numbers of cells: evaluation curves, final scores, means over steps, and the measures of a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from geoalign.files.columns import Floats, Ints, Series
from geoalign.lab.compare.results import Cell
from geoalign.lab.compare.settings import METRICS, CompareConfig
from geoalign.lab.compare.table import Curve
from geoalign.lab.runs.logged import APPLIED, OBSERVED
from geoalign.lab.runs.reading import Evaluation
from geoalign.statistics import known, largest_drop, mean, oscillation

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


def by_generation(values: Floats, updates: float) -> Floats:
    """The mean over the updates made on each generation, [generations]; NaN where none is known.

    The first update has KL and clip fraction 0 by construction, which would decide a median over single updates. Where
    the number of updates is not known (NaN), each stands for itself.
    """
    if math.isnan(updates) or updates != int(updates) or updates < 2:
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


def evaluation_curves(cells: Sequence[Cell]) -> dict[str, Curve]:
    """Each metric of the evaluations over steps, all cells together."""
    return {metric: stacked(cells, [evaluation_series(cell, metric) for cell in cells]) for metric in METRICS}


def logged_curve(cells: Sequence[Cell], name: str) -> Curve:
    """A logged quantity over steps, all cells together."""
    return stacked(cells, [series_of(cell, name) for cell in cells])


# --- the measures of a table ------------------------------------------------------------------------------------------


def _final(metric: str) -> Callable[[Cell, CompareConfig], float]:
    return lambda cell, plan: final_score(cell, metric, plan.last_evaluations)[0]


def _logged(name: str) -> Callable[[Cell, CompareConfig], float]:
    return lambda cell, plan: mean(cell.column(name))


def updates_of(cell: Cell, plan: CompareConfig) -> float:
    """The updates that a run made on each generation: as its result says, else by the plan for its level and arm."""
    if math.isnan(cell.updates_per_generation):
        return plan.updates_per_generation(cell.level, cell.arm)
    return cell.updates_per_generation


def _by_generation(name: str, reduce: Callable[[np.ndarray], float]) -> Callable[[Cell, CompareConfig], float]:
    return lambda cell, plan: reduce(by_generation(cell.column(name), updates_of(cell, plan)))


def _oscillation(cell: Cell, plan: CompareConfig) -> float:
    curve = evaluation_series(cell, plan.metric)
    return oscillation(curve.values, curve.steps)


def _curation_share(cell: Cell, plan: CompareConfig) -> float:
    whole = cell.seconds_per_step
    return mean(cell.column("curation_seconds")) / whole if whole > 0 else math.nan


# By name in the order of the CSV: a number of a cell, more of which is averaged over seeds.
MEASURES: dict[str, Callable[[Cell, CompareConfig], float]] = {
    # Final score on the plan's metric, final proxy reward and gold utility, the deepest fall of the latter.
    "score": lambda cell, plan: final_score(cell, plan.metric, plan.last_evaluations)[0],
    "reward": _final("reward"),
    "gold": _final("gold_utility"),
    "gold_drop": lambda cell, plan: largest_drop(evaluation_series(cell, "gold_utility").values),
    # Of the evaluation curve.
    "oscillation": _oscillation,
    "largest_drop": lambda cell, plan: largest_drop(evaluation_series(cell, plan.metric).values),
    # Over the generations of a run, each the mean of its updates.
    "kl_mean": _by_generation("ppo_kl", mean),
    "kl_median": _by_generation("ppo_kl", median),
    "clip_mean": _by_generation("clip_fraction", mean),
    "clip_median": _by_generation("clip_fraction", median),
    # Of the projector, mean over steps.
    "new_group_accuracy": _logged("new_group_accuracy"),
    "heldout_accuracy": _logged("heldout_pair_accuracy"),
    # Of the advantages with those of the true rewards, mean over generations: as applied, as the rewards came.
    "advantage_cosine": _logged(APPLIED),
    "observed_advantage_cosine": _logged(OBSERVED),
    # Rollouts per generation; seconds per step and their share of it; the peak of the process in bytes, whose
    # difference to the baseline is what the curator added.
    "replaced": _logged("replaced"),
    "curation_seconds": _logged("curation_seconds"),
    "curation_share": _curation_share,
    "memory": lambda cell, plan: cell.peak_memory_bytes,
}


def numbers_of(cell: Cell, plan: CompareConfig) -> dict[str | int, float]:
    """The measures of a finished cell by name, its pass@k by k, and the `evaluations` that its final score is of."""
    count = final_score(cell, plan.metric, plan.last_evaluations)[1]
    numbers: dict[str | int, float] = {name: number(cell, plan) for name, number in MEASURES.items()}
    numbers.update(pass_at_k(cell).items())
    return {**numbers, "evaluations": count}
