"""Results and plan to the typed table of a comparison: terminal, CSV, JSON and page are views of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from geoalign.lab.analysis.comparison.scores import (
    by_generation,
    evaluation_series,
    final_score,
    median,
    pass_at_k,
    stacked,
)
from geoalign.lab.analysis.comparison.table import (
    BOUND,
    EXPLORATORY,
    HEADROOM,
    PRIMARY,
    ArmRow,
    Comparison,
    LevelTable,
    Measure,
    Table,
)
from geoalign.lab.analysis.comparison.verdicts import level_statements
from geoalign.lab.analysis.consensus import APPLIED, OBSERVED
from geoalign.lab.analysis.detection import Detection, detection
from geoalign.lab.analysis.statistics import (
    Interval,
    holm,
    largest_drop,
    mean,
    oscillation,
    paired_difference,
    seed_interval,
)
from geoalign.lab.config.compare import METRICS, CompareConfig
from geoalign.lab.store.comparison import Cell, ComparisonFolder, read_results
from geoalign.lab.store.json_files import finite


@dataclass(frozen=True, eq=False)
class Compared:
    """A comparison: what was planned, the planned cells that have a result, and the table of them."""

    plan: CompareConfig
    cells: tuple[Cell, ...]
    table: Table

    def finished(self, level: str, arm: str | None = None) -> list[Cell]:
        here = [cell for cell in self.cells if cell.level == level and cell.finished]
        return here if arm is None else [cell for cell in here if cell.arm == arm]


def read_compared(folder: Path) -> Compared:
    plan, cells = ComparisonFolder(folder).read_plan(), read_results(folder)
    return Compared(plan, planned_cells(cells, plan), analyse(cells, plan))


def planned_cells(cells: Sequence[Cell], plan: CompareConfig) -> tuple[Cell, ...]:
    """The cells that the plan names: others are left from another choice of arms, levels or seeds."""
    arms = {level: {arm for arm in plan.arms if plan.planned(arm, level)} for level in plan.levels}
    return tuple(cell for cell in cells if cell.seed in plan.seeds and cell.arm in arms.get(cell.level, ()))


def analyse(cells: Sequence[Cell], plan: CompareConfig) -> Table:
    """The table of a comparison. Failed and missing cells are listed, never averaged over; unplanned ones are left out.

    Comparisons that the plan fixed beforehand are primary; others with the baseline, and of GeoAlign with the control,
    exploratory, with Holm's correction over the level. Those of the oracle (the headroom) and of an arm without
    corruption are bounds, no findings.
    """
    kept = planned_cells(cells, plan)
    levels = tuple(_level(name, [cell for cell in kept if cell.level == name], plan) for name in plan.levels)
    return Table(levels, _failed(kept), tuple(_notes(kept, len(cells) - len(kept), plan)))


def _failed(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    return tuple(cell for cell in cells if not cell.finished)


def _level(name: str, cells: Sequence[Cell], plan: CompareConfig) -> LevelTable:
    # Of each finished cell its numbers, and pass@k by k.
    done = {(cell.arm, cell.seed): cell for cell in cells if cell.finished}
    numbers = {key: {name: number(cell, plan) for name, number in MEASURES.items()} for key, cell in done.items()}
    passed = {key: pass_at_k(cell) for key, cell in done.items()}
    arms = [arm for arm in plan.arms if plan.planned(arm, name)]
    rows = tuple(_row(name, arm, [cell for cell in cells if cell.arm == arm], numbers, passed, plan) for arm in arms)
    comparisons = _corrected(_comparisons(rows, plan))
    rate = plan.rate(name)
    return LevelTable(
        level=name,
        rate=rate,
        corruption=plan.corruption.get(name, {}),
        rows=rows,
        headroom=next((item for item in comparisons if item.kind == HEADROOM), None),
        comparisons=comparisons,
        statements=tuple(level_statements(rate, comparisons, rows, plan)),
    )


# --- the measures of an arm -------------------------------------------------------------------------------------------


def _final(metric: str) -> Callable[[Cell, CompareConfig], float]:
    return lambda cell, plan: final_score(cell, metric, plan.last_evaluations)[0]


def _logged(name: str) -> Callable[[Cell, CompareConfig], float]:
    return lambda cell, plan: mean(cell.column(name))


def _by_generation(name: str, reduce: Callable[[np.ndarray], float]) -> Callable[[Cell, CompareConfig], float]:
    return lambda cell, plan: reduce(by_generation(cell.column(name), plan.updates_per_generation))


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
    # Of the advantages as applied with those of the true rewards, mean over generations; of those of the rewards as
    # they came.
    "advantage_cosine": _logged(APPLIED),
    "observed_advantage_cosine": _logged(OBSERVED),
    # Rollouts per generation; seconds per step and their share of it; the peak of the process in bytes, whose
    # difference to the baseline is what the curator added.
    "replaced": _logged("replaced"),
    "curation_seconds": _logged("curation_seconds"),
    "curation_share": _curation_share,
    "memory": lambda cell, plan: cell.peak_memory_bytes,
}


_Numbers = Mapping[tuple[str, int], Mapping[Any, float]]


def _row(
    level: str, arm: str, cells: Sequence[Cell], numbers: _Numbers, passed: _Numbers, plan: CompareConfig
) -> ArmRow:
    done = [cell for cell in cells if cell.finished]
    started = {cell.seed for cell in cells}
    example = next(iter(done or cells), None)
    return ArmRow(
        level=level,
        arm=arm,
        role=plan.role(arm),
        curator=example.curator if example else "",
        settings=example.settings if example else {},
        seeds=tuple(cell.seed for cell in done),
        failures=_failed(cells),
        missing=tuple(seed for seed in plan.seeds if seed not in started),
        evaluations=min((final_score(cell, plan.metric, plan.last_evaluations)[1] for cell in done), default=0),
        measures={name: _measure(numbers, name, arm, plan) for name in MEASURES},
        pass_at_k={
            k: _measure(passed, k, arm, plan) for k in sorted({k for cell in done for k in passed[arm, cell.seed]})
        },
        detection=_detection(done),
        curves={metric: stacked(done, [evaluation_series(cell, metric) for cell in done]) for metric in METRICS},
    )


def _measure(numbers: _Numbers, name: str | int, arm: str, plan: CompareConfig) -> Measure:
    mine, theirs = (
        {seed: row.get(name, math.nan) for (whose, seed), row in numbers.items() if whose == side}
        for side in (arm, plan.baseline)
    )
    return Measure(mine, seed_interval(list(mine.values())), paired_difference(mine, theirs))


def _detection(cells: Sequence[Cell]) -> Detection | None:
    units = {cell.seed: dict(cell.detection) for cell in cells}
    return detection(
        units,
        precision=_share(cell.replaced_precision for cell in cells),
        base_rate=_share(cell.base_rate for cell in cells),
        interval=_share,
    )


def _share(values: Iterable[float]) -> Interval:
    """The interval over seeds of a quantity from 0 to 1, cut to that range."""
    interval = seed_interval(list(values))
    return Interval(interval.estimate, *(float(np.clip(end, 0, 1)) for end in (interval.low, interval.high)))


# --- comparisons ------------------------------------------------------------------------------------------------------


def _comparisons(rows: Sequence[ArmRow], plan: CompareConfig) -> list[Comparison]:
    by_arm = {row.arm: row for row in rows}
    comparisons = []
    for row in rows:
        others = [item.against for item in plan.primary if item.arm == row.arm]
        for against in dict.fromkeys([plan.baseline, plan.control, *others]):
            other = by_arm.get(against) if against is not None else None
            kind = _kind(row, other, plan) if other is not None else ""
            if other is not None and kind:
                difference = paired_difference(row.score.values, other.score.values)
                comparisons.append(Comparison(row.arm, other.arm, kind, difference, math.nan))
    return comparisons


def _kind(row: ArmRow, other: ArmRow, plan: CompareConfig) -> str:
    """What the comparison of an arm with another counts as; empty where none is made."""
    if row.arm == other.arm:
        return ""
    if plan.is_primary(row.arm, other.arm):
        return PRIMARY
    if other.arm == plan.baseline:
        return {"oracle": HEADROOM, "bound": BOUND}.get(row.role, EXPLORATORY)
    return EXPLORATORY if other.arm == plan.control and row.is_geoalign else ""


def _corrected(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Holm's correction over the exploratory comparisons, which are those of one level."""
    explored = [at for at, item in enumerate(comparisons) if item.kind == EXPLORATORY]
    adjusted = holm([comparisons[at].difference.p for at in explored])
    p = dict(zip(explored, adjusted.tolist(), strict=True))
    return tuple(replace(item, adjusted_p=p.get(at, math.nan)) for at, item in enumerate(comparisons))


def _notes(cells: Sequence[Cell], left_out: int, plan: CompareConfig) -> list[str]:
    notes = []
    done = [cell for cell in cells if cell.finished]
    sets = {frozenset(line.set for line in cell.evaluations) for cell in done}
    if len(sets) > 1:
        words = "; ".join(", ".join(sorted(names)) or "none" for names in sorted(sets, key=sorted))
        notes.append(f"Not all cells were evaluated on the same sets ({words}): their scores do not compare.")
    short = [cell for cell in done if final_score(cell, plan.metric, plan.last_evaluations)[1] < plan.last_evaluations]
    if short:
        notes.append(
            f"{len(short)} of {len(done)} cells have fewer than {plan.last_evaluations} evaluations during and after "
            "RL: their final score is the mean of those there are."
        )
    if left_out:
        notes.append(f"Results of {left_out} cells that are not in compare.yaml are left out.")
    return notes


def reference(rows: Sequence[ArmRow], plan: CompareConfig) -> ArmRow | None:
    """The arm whose ranks and projector are drawn: GeoAlign in the primary comparison, else the first GeoAlign."""
    candidates = [row for row in rows if row.is_geoalign and row.seeds]
    return next((row for row in candidates if row.role == "primary"), candidates[0] if candidates else None)


# --- as JSON ----------------------------------------------------------------------------------------------------------


def table_as_json(table: Table, plan: CompareConfig) -> dict[str, object]:
    """The table as plain values for table.json; NaN becomes null, curves are left out (the results hold them)."""
    levels = []
    for level in table.levels:
        facts = {name: getattr(level, name) for name in ("level", "rate", "corruption", "decidable")}
        arms = [_arm_as_json(row) for row in level.rows]
        said = {name: [asdict(item) for item in getattr(level, name)] for name in ("comparisons", "statements")}
        levels.append({**facts, "arms": arms, **said})
    head = {"schema_version": 1, "metric": plan.metric, "baseline": plan.baseline}
    found: dict[str, object] = finite(
        {**head, "levels": levels, "failures": _errors(table.failures), "notes": table.notes}
    )
    return found


def _arm_as_json(row: ArmRow) -> dict[str, object]:
    facts = asdict(replace(row, failures=(), measures={}, curves={}))
    del facts["measures"], facts["curves"]
    measures = {name: asdict(measure) for name, measure in row.measures.items()}
    return {**facts, **measures, "failures": _errors(row.failures)}


def _errors(cells: Sequence[Cell]) -> list[dict[str, object]]:
    return [{name: getattr(cell, name) for name in ("level", "arm", "seed", "error")} for cell in cells]
