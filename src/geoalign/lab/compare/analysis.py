"""Results and plan to the typed table of a comparison: terminal, CSV, JSON and page are views of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from geoalign.files.json_files import finite
from geoalign.lab.compare.cell_numbers import MEASURES, evaluation_curves, numbers_of, updates_of
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.recovery import footnote, headline, recovery
from geoalign.lab.compare.results import Cell, read_results
from geoalign.lab.compare.settings import CompareConfig
from geoalign.lab.compare.statements import level_statements
from geoalign.lab.compare.table import (
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
from geoalign.lab.runs.detection import OWN_SCORE, Detection, detection
from geoalign.statistics import Interval, holm, paired_difference, seed_interval
from geoalign.text import seed_ranges

# By level, arm and seed of a finished cell.
_Numbers = Mapping[tuple[str, str, int], Mapping[str | int, float]]


def read_table(folder: Path) -> Table:
    """The table of the comparison in a folder."""
    plan = ComparisonFolder(folder).read_plan()
    return analyse(read_results(folder), plan)


def analyse(cells: Sequence[Cell], plan: CompareConfig) -> Table:
    """The table of a comparison. Failed and missing cells are listed, never averaged over; unplanned ones, which are
    left from another choice of arms, levels or seeds, are left out.

    Comparisons that the plan fixed beforehand are primary; others with the baseline, and of GeoAlign with the control,
    exploratory, with Holm's correction over the level. Those of the oracle (the headroom) and of an arm without
    corruption are bounds, no findings; where the oracle has no result, the latter is the headroom.
    """
    arms = {level: [arm for arm in plan.arms if plan.planned(arm, level)] for level in plan.levels}
    kept = [cell for cell in cells if cell.seed in plan.seeds and cell.arm in arms.get(cell.level, ())]
    numbers = {(cell.level, cell.arm, cell.seed): numbers_of(cell, plan) for cell in kept if cell.finished}
    levels = tuple(
        _level(level, [_row(level, arm, kept, numbers, plan) for arm in arms[level]], plan) for level in plan.levels
    )
    notes = _notes(kept, [row["evaluations"] for row in numbers.values()], len(cells) - len(kept), plan)
    notes += [note for level in levels if (note := _unequal_seeds(level))]
    return Table(plan, levels, tuple(cell for cell in kept if not cell.finished), tuple(notes))


def _level(name: str, rows: Sequence[ArmRow], plan: CompareConfig) -> LevelTable:
    comparisons = _corrected(_comparisons(rows, plan))
    rate = plan.rate(name, plan.baseline)
    level = LevelTable(
        level=name,
        rate=rate,
        corruption=plan.corruption(name, plan.baseline),
        rows=tuple(rows),
        comparisons=comparisons,
        statements=tuple(level_statements(rate, comparisons, rows, plan)),
    )
    level = replace(level, recovery=recovery(level, plan))
    return replace(level, headline=headline(level, plan), footnote=footnote(level, plan))


def _unequal_seeds(level: LevelTable) -> str:
    """A note where the arms of a level have finished different seeds; else empty."""
    by_seeds: dict[tuple[int, ...], list[str]] = {}
    for row in level.rows:
        if row.seeds:
            by_seeds.setdefault(row.seeds, []).append(row.arm)
    if len(by_seeds) < 2:
        return ""
    parts = [f"{seed_ranges(seeds)} by {', '.join(arms)}" for seeds, arms in by_seeds.items()]
    return (
        f"At {level.level} the arms have finished different seeds: {'; '.join(parts)}. A row's score and gain are of "
        "the seeds that it shares with the baseline: compare gains, not scores of two rows."
    )


# --- the rows ---------------------------------------------------------------------------------------------------------


def _row(level: str, arm: str, every: Sequence[Cell], numbers: _Numbers, plan: CompareConfig) -> ArmRow:
    cells = [cell for cell in every if cell.level == level and cell.arm == arm]
    done = tuple(cell for cell in cells if cell.finished)
    own = [numbers[level, arm, cell.seed] for cell in done]
    started = {cell.seed for cell in cells}
    example = next(iter([*done, *cells]), None)
    return ArmRow(
        level=level,
        arm=arm,
        role=plan.role(arm),
        rate=plan.rate(level, arm),
        curator=example.curator if example else "",
        settings=example.settings if example else {},
        seeds=tuple(cell.seed for cell in done),
        cells=done,
        failures=tuple(cell for cell in cells if not cell.finished),
        missing=tuple(seed for seed in plan.seeds if seed not in started),
        updates=tuple(sorted({found for cell in done if not math.isnan(found := updates_of(cell, plan))})),
        evaluations=int(min((row["evaluations"] for row in own), default=0)),
        measures={name: _measure(numbers, name, level, arm, plan) for name in MEASURES},
        pass_at_k={
            k: _measure(numbers, k, level, arm, plan)
            for k in sorted({k for row in own for k in row if isinstance(k, int)})
        },
        detection=_detection(done),
        curves=evaluation_curves(done),
    )


def _measure(numbers: _Numbers, name: str | int, level: str, arm: str, plan: CompareConfig) -> Measure:
    mine, theirs = (
        {seed: row.get(name, math.nan) for (*whose, seed), row in numbers.items() if whose == [level, side]}
        for side in (arm, plan.baseline)
    )
    shared = {seed: value for seed, value in mine.items() if not math.isnan(value + theirs.get(seed, math.nan))}
    return Measure(
        values=mine,
        interval=seed_interval(list(mine.values())),
        difference=paired_difference(mine, theirs),
        paired_values=shared,
    )


def _detection(cells: Sequence[Cell]) -> Detection | None:
    cells = _same_cells(cells)
    units = {cell.seed: dict(cell.detection) for cell in cells}
    return detection(
        units,
        precision=_share(cell.replaced_precision for cell in cells),
        base_rate=_share(cell.base_rate for cell in cells),
        interval=_share,
    )


def _same_cells(cells: Sequence[Cell]) -> Sequence[Cell]:
    """The cells that all numbers of a row on detection are of: where the arm has a score of its own and replaced rows,
    those in which both could be judged."""
    scored = [cell for cell in cells if not math.isnan(cell.detection.get(OWN_SCORE, (math.nan, math.nan))[0])]
    scored = scored or list(cells)
    return [cell for cell in scored if not math.isnan(cell.replaced_precision)] or scored


def _share(values: Iterable[float]) -> Interval:
    """The interval over seeds of a quantity from 0 to 1, cut to that range."""
    interval = seed_interval(list(values))
    return Interval(interval.estimate, *(float(np.clip(end, 0, 1)) for end in (interval.low, interval.high)))


# --- comparisons ------------------------------------------------------------------------------------------------------


def _comparisons(rows: Sequence[ArmRow], plan: CompareConfig) -> list[Comparison]:
    by_arm = {row.arm: row for row in rows}
    headroom = _headroom_arm(by_arm, plan)
    comparisons = []
    for row in rows:
        others = [item.against for item in plan.primary if item.arm == row.arm]
        for against in dict.fromkeys([plan.baseline, plan.control, *others]):
            other = by_arm.get(against) if against is not None else None
            kind = _kind(row, other, plan, headroom) if other is not None else ""
            if other is not None and kind:
                difference = paired_difference(row.score.values, other.score.values)
                comparisons.append(Comparison(row.arm, other.arm, kind, difference, math.nan))
    return comparisons


def _headroom_arm(rows: Mapping[str, ArmRow], plan: CompareConfig) -> str | None:
    """The arm whose difference to the baseline is the headroom: the oracle, else the baseline's curator without any
    wrong reward, which is the ceiling of all curators."""
    baseline, oracle = rows.get(plan.baseline), rows.get(plan.oracle or "")
    if baseline is None or baseline.rate == 0 or (oracle is not None and oracle.seeds):
        return plan.oracle
    ceiling = (arm for arm, row in rows.items() if row.seeds and row.rate == 0 and row.curator == baseline.curator)
    return next((arm for arm in ceiling if arm != plan.baseline), plan.oracle)


def _kind(row: ArmRow, other: ArmRow, plan: CompareConfig, headroom: str | None) -> str:
    """What the comparison of an arm with another counts as; empty where none is made."""
    if row.arm == other.arm:
        return ""
    if (row.arm, other.arm) == (headroom, plan.baseline):
        return HEADROOM
    if plan.is_primary(row.arm, other.arm):
        return PRIMARY
    if other.arm == plan.baseline:
        return BOUND if row.role == "bound" else EXPLORATORY
    return EXPLORATORY if other.arm == plan.control and row.is_geoalign else ""


def _corrected(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Holm's correction over the exploratory comparisons, which are those of one level."""
    explored = [at for at, item in enumerate(comparisons) if item.kind == EXPLORATORY]
    adjusted = holm([comparisons[at].difference.p for at in explored])
    p = dict(zip(explored, adjusted.tolist(), strict=True))
    return tuple(replace(item, adjusted_p=p.get(at, math.nan)) for at, item in enumerate(comparisons))


def _notes(cells: Sequence[Cell], evaluations: Sequence[float], left_out: int, plan: CompareConfig) -> list[str]:
    notes = []
    done = [cell for cell in cells if cell.finished]
    sets = {frozenset(line.set for line in cell.evaluations) for cell in done}
    if len(sets) > 1:
        words = "; ".join(", ".join(sorted(names)) or "none" for names in sorted(sets, key=sorted))
        notes.append(f"Not all runs were evaluated on the same sets ({words}): their scores do not compare.")
    if short := sum(count < plan.last_evaluations for count in evaluations):
        notes.append(
            f"{short} of {len(done)} runs have fewer than {plan.last_evaluations} evaluations during and after "
            "RL: their final score is the mean of those there are."
        )
    if (share := plan.seeds_per_warm_start) and len({seed // share for seed in plan.seeds}) < len(plan.seeds):
        notes.append(f"Intervals and p-values take seeds as independent, although {share} share each warm start.")
    if left_out:
        notes.append(f"Results of {left_out} runs that are not in compare.yaml are left out.")
    return notes


# --- as JSON ----------------------------------------------------------------------------------------------------------


def table_as_json(table: Table) -> dict[str, object]:
    """The table as plain values for table.json; NaN becomes null, curves are left out (the results hold them)."""
    levels = []
    for level in table.levels:
        facts = {name: getattr(level, name) for name in ("level", "rate", "corruption")}
        arms = [_arm_as_json(row) for row in level.rows]
        said = {name: [asdict(item) for item in getattr(level, name)] for name in ("comparisons", "statements")}
        levels.append({**facts, "arms": arms, **said})
    head = {"schema_version": 1, "metric": table.plan.metric, "baseline": table.plan.baseline}
    found: dict[str, object] = finite(
        {**head, "levels": levels, "failures": _errors(table.failures), "notes": table.notes}
    )
    return found


def _arm_as_json(row: ArmRow) -> dict[str, object]:
    facts = asdict(replace(row, cells=(), failures=(), measures={}, curves={}))
    del facts["cells"], facts["measures"], facts["curves"]
    measures = {name: asdict(measure) for name, measure in row.measures.items()}
    return {**facts, **measures, "failures": _errors(row.failures)}


def _errors(cells: Sequence[Cell]) -> list[dict[str, object]]:
    return [{name: getattr(cell, name) for name in ("level", "arm", "seed", "error")} for cell in cells]
