"""Results and plan to the typed table of a comparison: terminal, CSV, JSON and page are views of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from geoalign.lab.analysis.comparison.scores import (
    by_generation,
    detection,
    evaluation_series,
    final_score,
    mean,
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
    Failure,
    LevelTable,
    Measure,
    Table,
)
from geoalign.lab.analysis.comparison.verdicts import level_statements
from geoalign.lab.analysis.consensus import APPLIED, OBSERVED, Agreement, agreement
from geoalign.lab.analysis.statistics import holm, largest_drop, oscillation, paired_difference, seed_interval
from geoalign.lab.config.compare import CompareConfig
from geoalign.lab.store.comparison import ComparisonFolder
from geoalign.lab.store.comparison_results import Cell, read_results

_Numbers = dict[int, float]


@dataclass(frozen=True, eq=False)
class Compared:
    """A comparison: what was planned, the planned cells that have a result, and the table of them."""

    plan: CompareConfig
    cells: tuple[Cell, ...]
    table: Table

    def finished(self, level: str, arm: str | None = None) -> list[Cell]:
        """The finished cells of a level, or of one arm there."""
        here = [cell for cell in self.cells if cell.level == level and cell.finished]
        return here if arm is None else [cell for cell in here if cell.arm == arm]


def read_compared(folder: Path) -> Compared:
    """The comparison in a folder, read and analysed."""
    plan, cells = ComparisonFolder(folder).read_plan(), read_results(folder)
    return Compared(plan, planned_cells(cells, plan), analyse(cells, plan))


def analyse(cells: Sequence[Cell], plan: CompareConfig) -> Table:
    """The table of a comparison. Failed and missing cells are listed, never averaged over; unplanned ones are left out.

    Per level, the comparisons that the plan fixed beforehand are primary; those of all other arms with the baseline,
    and of GeoAlign in any form with the control, exploratory, with Holm's correction over those of the level. The
    oracle's difference to the baseline is the headroom; like that of an arm without corruption it is a bound, no
    finding, and does not count in the correction.
    """
    kept = planned_cells(cells, plan)
    failures = tuple(Failure(cell.level, cell.arm, cell.seed, cell.error) for cell in kept if not cell.finished)
    levels = tuple(_level(name, [cell for cell in kept if cell.level == name], plan) for name in plan.levels)
    return Table(levels, failures, tuple(_notes(kept, len(cells) - len(kept), plan)))


def planned_cells(cells: Sequence[Cell], plan: CompareConfig) -> tuple[Cell, ...]:
    """The cells that the plan names: others are left from another choice of arms, levels or seeds."""
    return tuple(
        cell
        for cell in cells
        if cell.arm in plan.arms
        and cell.level in plan.levels
        and cell.seed in plan.seeds
        and plan.planned(cell.arm, cell.level)
    )


def _level(name: str, cells: Sequence[Cell], plan: CompareConfig) -> LevelTable:
    arms = [arm for arm in plan.arms if plan.planned(arm, name)]
    ranges = _ranges([cell for cell in cells if cell.finished])
    baseline = [cell for cell in cells if cell.arm == plan.baseline and cell.finished]
    rows = tuple(_row(name, arm, [cell for cell in cells if cell.arm == arm], baseline, ranges, plan) for arm in arms)
    comparisons = _corrected(_comparisons(rows, plan))
    headroom = next((item for item in comparisons if item.kind == HEADROOM), None)
    rate = plan.rate(name)
    return LevelTable(
        level=name,
        rate=rate,
        corruption=plan.corruption.get(name, {}),
        rows=rows,
        headroom=headroom,
        comparisons=comparisons,
        statements=tuple(level_statements(name, rate, comparisons, rows, plan)),
    )


def _row(
    level: str,
    arm: str,
    cells: Sequence[Cell],
    baseline: Sequence[Cell],
    ranges: tuple[float, float],
    plan: CompareConfig,
) -> ArmRow:
    done = [cell for cell in cells if cell.finished]

    def measure(number: Callable[[Cell], float]) -> Measure:
        mine = {cell.seed: number(cell) for cell in done}
        return _measure(mine, {cell.seed: number(cell) for cell in baseline})

    def final(metric: str) -> Measure:
        return measure(lambda cell: final_score(cell, metric, plan.last_evaluations)[0])

    def logged(name: str, reduce: Callable[[np.ndarray], float] = mean) -> Measure:
        return measure(lambda cell: reduce(cell.column(name)))

    def trusted(name: str, reduce: Callable[[np.ndarray], float] = mean) -> Measure:
        return measure(lambda cell: reduce(by_generation(cell.column(name), plan.updates_per_generation)))

    ks = sorted({k for cell in done for k in pass_at_k(cell)})
    example = next(iter(done or cells), None)
    return ArmRow(
        level=level,
        arm=arm,
        role=plan.role(arm),
        curator=example.curator if example else "",
        settings=example.settings if example else {},
        seeds=tuple(cell.seed for cell in done),
        failures=tuple(Failure(level, arm, cell.seed, cell.error) for cell in cells if not cell.finished),
        missing=tuple(s for s in plan.seeds if plan.planned(arm, level) and s not in {cell.seed for cell in cells}),
        evaluations=min((final_score(cell, plan.metric, plan.last_evaluations)[1] for cell in done), default=0),
        score=final(plan.metric),
        reward=final("reward"),
        gold=final("gold_utility"),
        hacking_gap=measure(lambda cell: _hacking_gap(cell, ranges, plan.last_evaluations)),
        gold_drop=measure(lambda cell: largest_drop(evaluation_series(cell, "gold_utility").values)),
        oscillation=measure(lambda cell: _oscillation(cell, plan.metric)),
        largest_drop=measure(lambda cell: largest_drop(evaluation_series(cell, plan.metric).values)),
        kl_mean=trusted("ppo_kl"),
        kl_median=trusted("ppo_kl", median),
        clip_mean=trusted("clip_fraction"),
        clip_median=trusted("clip_fraction", median),
        new_group_accuracy=logged("new_group_accuracy"),
        heldout_accuracy=logged("heldout_pair_accuracy"),
        advantage_cosine=measure(lambda cell: _agreement(cell).applied.estimate),
        observed_advantage_cosine=measure(lambda cell: _agreement(cell).observed.estimate),
        replaced=logged("replaced"),
        curation_seconds=logged("curation_seconds"),
        curation_share=measure(lambda cell: _share(mean(cell.column("curation_seconds")), cell.seconds_per_step)),
        memory=measure(lambda cell: cell.peak_memory_bytes),
        pass_at_k={k: measure(lambda cell, k=k: pass_at_k(cell).get(k, math.nan)) for k in ks},  # type: ignore[misc]
        detection=detection(done),
        curve=stacked(done, [evaluation_series(cell, plan.metric) for cell in done]),
        reward_curve=stacked(done, [evaluation_series(cell, "reward") for cell in done]),
        gold_curve=stacked(done, [evaluation_series(cell, "gold_utility") for cell in done]),
    )


def _agreement(cell: Cell) -> Agreement:
    return agreement(cell.column(APPLIED), cell.column(OBSERVED))


def _measure(mine: _Numbers, theirs: _Numbers) -> Measure:
    return Measure(mine, seed_interval(list(mine.values())), paired_difference(mine, theirs))


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
                comparisons.append(Comparison(row.level, row.arm, other.arm, kind, difference, math.nan))
    return comparisons


def _kind(row: ArmRow, other: ArmRow, plan: CompareConfig) -> str:
    """What the comparison of an arm with another counts as; empty where none is made."""
    if row.arm == other.arm:
        return ""
    if plan.is_primary(row.arm, other.arm):
        return PRIMARY
    if other.arm == plan.baseline:
        return {"oracle": HEADROOM, "bound": BOUND}.get(row.role, EXPLORATORY)
    return EXPLORATORY if other.arm == plan.control and is_geoalign(row) else ""


def is_geoalign(row: ArmRow) -> bool:
    """Whether the arm's curator is GeoAlign in any form, so that the pair count is the control it must beat."""
    return row.curator.startswith("geoalign")


def _corrected(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Holm's correction over the exploratory comparisons, which are those of one level."""
    explored = [at for at, item in enumerate(comparisons) if item.kind == EXPLORATORY]
    adjusted = holm([comparisons[at].difference.p for at in explored])
    p = dict(zip(explored, adjusted.tolist(), strict=True))
    return tuple(replace(item, adjusted_p=p.get(at, math.nan)) for at, item in enumerate(comparisons))


def _oscillation(cell: Cell, metric: str) -> float:
    curve = evaluation_series(cell, metric)
    return oscillation(curve.values, curve.steps)


def _ranges(cells: Sequence[Cell]) -> tuple[float, float]:
    """Largest minus smallest proxy reward and gold utility over all evaluations of a level; NaN where not there."""
    widths = []
    for metric in ("reward", "gold_utility"):
        values = [value for cell in cells for value in evaluation_series(cell, metric).values.tolist()]
        widths.append(max(values) - min(values) if values else math.nan)
    return widths[0], widths[1]


def _hacking_gap(cell: Cell, ranges: tuple[float, float], last: int) -> float:
    rises = []
    for metric, width in zip(("reward", "gold_utility"), ranges, strict=True):
        first = evaluation_series(cell, metric).values[:1]
        rise = final_score(cell, metric, last)[0] - first[0] if len(first) else math.nan
        rises.append(_share(rise, width))
    return rises[0] - rises[1]


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else math.nan


def _notes(cells: Sequence[Cell], left_out: int, plan: CompareConfig) -> list[str]:
    """What makes cells hard to compare: other sets, too few evaluations; and what was left out."""
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


def table_as_json(table: Table, plan: CompareConfig) -> dict[str, object]:
    """The table as plain values for table.json; NaN becomes null, curves are left out (the results hold them)."""
    return {
        "schema_version": 1,
        "metric": plan.metric,
        "baseline": plan.baseline,
        "levels": [_level_as_json(level) for level in table.levels],
        "failures": [vars(failure) for failure in table.failures],
        "notes": list(table.notes),
    }


def _level_as_json(level: LevelTable) -> dict[str, object]:
    return {
        "level": level.level,
        "rate": _plain(level.rate),
        "corruption": level.corruption,
        "decidable": level.decidable,
        "arms": [_plain(_fields(row, leave=("curve", "reward_curve", "gold_curve", "level"))) for row in level.rows],
        "comparisons": [_plain(_fields(item, leave=("level",))) for item in level.comparisons],
        "statements": [_plain(_fields(item, leave=("level",))) for item in level.statements],
    }


def _fields(item: object, leave: Sequence[str] = ()) -> dict[str, object]:
    return {name: value for name, value in vars(item).items() if name not in leave}


def _plain(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return _plain(vars(value)) if hasattr(value, "__dict__") else value
