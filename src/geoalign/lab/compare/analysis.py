"""Results and plan to the table of a comparison: terminal, CSV, JSON and page are views of it and of its frame."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from pandas import DataFrame

from geoalign.files.json_files import finite
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.headline import footnote, level_headline
from geoalign.lab.compare.numbers import MEASURES, long_frame, numbers_by_run
from geoalign.lab.compare.results import RunResult, read_results
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
from geoalign.lab.runs.detection import Detection, by_unit, detection_over_units
from geoalign.lab.runs.numbers import PASS_AT
from geoalign.statistics import Interval, holm, paired_difference, seed_interval
from geoalign.text import seed_ranges


def read_table(folder: Path) -> Table:
    """The table of the comparison in a folder."""
    plan = ComparisonFolder(folder).read_plan()
    return analyse(read_results(folder), plan)


def analyse(results: Sequence[RunResult], plan: CompareConfig) -> Table:
    """The table of a comparison. Failed and missing runs are listed, never averaged over; unplanned ones, which are
    left from another choice of arms, levels or seeds, are left out.

    Comparisons that the plan fixed beforehand are primary; others with the baseline, and of GeoAlign with the control,
    exploratory, with Holm's correction over the level. Those of the oracle (the headroom) and of an arm without
    corruption are bounds, no findings; where the oracle has no result, the latter is the headroom.
    """
    kept = [result for result in results if plan.has(result.level, result.arm, result.seed)]
    numbers = long_frame(kept)
    by_run = numbers_by_run(numbers, plan)
    levels = []
    for name in plan.levels:
        rows = []
        for arm in plan.arms:
            if plan.planned(arm, name):
                of_arm = [result for result in kept if (result.level, result.arm) == (name, arm)]
                rows.append(_row(name, arm, of_arm, by_run, plan))
        levels.append(_level(name, rows, numbers[numbers.level == name], plan))
    notes = _notes(kept, by_run, len(results) - len(kept), plan)
    notes += [note for note in map(_unequal_seeds, levels) if note]
    return Table(plan=plan, results=tuple(kept), numbers=numbers, levels=tuple(levels), notes=tuple(notes))


def _level(name: str, rows: Sequence[ArmRow], numbers: DataFrame, plan: CompareConfig) -> LevelTable:
    """What the arms of a level come to: their comparisons, what may be said of them, and the headline."""
    level = LevelTable(
        level=name,
        rate=plan.rate(name, plan.baseline),
        corruption=plan.corruption(name, plan.baseline),
        numbers=numbers,
        rows=tuple(rows),
        comparisons=_corrected(_comparisons(rows, plan)),
    )
    level = replace(level, statements=tuple(level_statements(level, plan)))
    return replace(level, headline=level_headline(level, plan), footnote=footnote(level, plan))


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


def _row(level: str, arm: str, results: Sequence[RunResult], by_run: DataFrame, plan: CompareConfig) -> ArmRow:
    """The row of an arm at a level.

    Args:
        results: those of this arm at this level.
        by_run: the numbers of all runs.
    """
    finished = [result for result in results if result.finished]
    example = finished[0] if finished else (results[0] if results else None)
    with_result = {result.seed for result in results}
    own = _of_arm(by_run, level, arm)
    theirs = _of_arm(by_run, level, plan.baseline)
    passed = [name for name in own.columns.tolist() if name.startswith(PASS_AT) and own[name].notna().any()]
    passed.sort(key=lambda name: int(name.removeprefix(PASS_AT)))
    return ArmRow(
        level=level,
        arm=arm,
        role=plan.role(arm),
        rate=plan.rate(level, arm),
        curator=example.curator if example else "",
        settings=example.settings if example else {},
        seeds=tuple(result.seed for result in finished),
        failures=tuple(result for result in results if not result.finished),
        missing=tuple(seed for seed in plan.seeds if seed not in with_result),
        updates=tuple(sorted(own.updates.dropna().unique().tolist())),
        evaluations=int(own.evaluations.fillna(0).min()) if finished else 0,
        measures={name: _measure(own, theirs, name) for name in MEASURES},
        pass_at_k={int(name.removeprefix(PASS_AT)): _measure(own, theirs, name) for name in passed},
        detection=_detection(own),
    )


def _of_arm(frame: DataFrame, level: str, arm: str) -> DataFrame:
    """The rows of an arm at a level, by seed."""
    levels = frame.index.get_level_values("level")
    arms = frame.index.get_level_values("arm")
    return frame[(levels == level) & (arms == arm)].droplevel(["level", "arm"])


def _measure(own: DataFrame, baseline: DataFrame, column: str) -> Measure:
    """A number of an arm beside the baseline's, both by seed."""
    values = by_unit(own, column)
    theirs = by_unit(baseline, column)
    paired = {seed: value for seed, value in values.items() if not math.isnan(value + theirs.get(seed, math.nan))}
    return Measure(
        values=values,
        interval=seed_interval(list(values.values())),
        difference=paired_difference(values, theirs),
        paired_values=paired,
    )


def _detection(whole: DataFrame) -> Detection | None:
    """Detection by an arm, over its seeds, from the numbers of its whole runs by seed.

    All its numbers are of the same runs: where the arm has a score of its own and changed rows, of those in which both
    could be judged.
    """
    for metric in ("auroc/score", "changed_precision"):
        if metric in whole and whole[metric].notna().any():
            whole = whole[whole[metric].notna()]
    return detection_over_units(
        whole,
        precision=_share(whole.get("changed_precision", ())),
        base_rate=_share(whole.get("base_rate", ())),
        interval=_share,
    )


def _share(values: Iterable[float]) -> Interval:
    """The interval over seeds of a quantity from 0 to 1, cut to that range."""
    interval = seed_interval(list(values))
    return Interval(interval.estimate, max(interval.low, 0.0), min(interval.high, 1.0))


# --- comparisons ------------------------------------------------------------------------------------------------------


def _comparisons(rows: Sequence[ArmRow], plan: CompareConfig) -> list[Comparison]:
    """Each arm against the baseline, the control and what the plan names, where that is a comparison at all."""
    by_arm = {row.arm: row for row in rows}
    headroom = _headroom_arm(by_arm, plan)
    comparisons = []
    for row in rows:
        primary = [item.against for item in plan.primary if item.arm == row.arm]
        for against in dict.fromkeys([plan.baseline, plan.control, *primary]):
            other = by_arm.get(against or "")
            kind = _kind(row, other, plan, headroom) if other else ""
            if other and kind:
                difference = paired_difference(row.score.values, other.score.values)
                comparisons.append(
                    Comparison(arm=row.arm, against=other.arm, kind=kind, difference=difference, adjusted_p=math.nan)
                )
    return comparisons


def _headroom_arm(rows: Mapping[str, ArmRow], plan: CompareConfig) -> str | None:
    """The arm whose difference to the baseline is the headroom: the oracle, else the baseline's curator without any
    wrong reward, which is the ceiling of all curators."""
    baseline = rows.get(plan.baseline)
    oracle = rows.get(plan.oracle or "")
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
    adjusted = iter(holm([item.difference.p for item in comparisons if item.kind == EXPLORATORY]).tolist())
    return tuple(replace(item, adjusted_p=next(adjusted)) if item.kind == EXPLORATORY else item for item in comparisons)


def _notes(results: Sequence[RunResult], by_run: DataFrame, left_out: int, plan: CompareConfig) -> list[str]:
    """What a reader must know of the runs that the numbers are of."""
    notes = []
    sets = set()
    for result in results:
        if result.finished:
            sets.add(tuple(sorted({row[0] for row in result.rows if row[0]})))
    if len(sets) > 1:
        words = "; ".join(", ".join(names) or "none" for names in sorted(sets))
        notes.append(f"Not all runs were evaluated on the same sets ({words}): their scores do not compare.")
    short = int((by_run.evaluations.fillna(0) < plan.last_evaluations).sum())
    if short:
        notes.append(
            f"{short} of {len(by_run)} runs have fewer than {plan.last_evaluations} evaluations during and after "
            "RL: their final score is the mean of those there are."
        )
    share = plan.seeds_per_warm_start
    if share is not None and len({seed // share for seed in plan.seeds}) < len(plan.seeds):
        notes.append(f"Intervals and p-values take seeds as independent, although {share} share each warm start.")
    if left_out:
        notes.append(f"Results of {left_out} runs that are not in compare.yaml are left out.")
    return notes


# --- as JSON ----------------------------------------------------------------------------------------------------------


def table_as_json(table: Table) -> dict[str, object]:
    """The table as plain values for table.json; NaN becomes null, curves are left out (the results hold them)."""
    levels = []
    for level in table.levels:
        levels.append(
            {
                "level": level.level,
                "rate": level.rate,
                "corruption": level.corruption,
                "arms": [_arm_as_json(row) for row in level.rows],
                "comparisons": [asdict(item) for item in level.comparisons],
                "statements": [asdict(item) for item in level.statements],
            }
        )
    found: dict[str, object] = finite(
        {
            "schema_version": 1,
            "metric": table.plan.metric,
            "baseline": table.plan.baseline,
            "levels": levels,
            "failures": _errors(table.failures),
            "notes": table.notes,
        }
    )
    return found


def _arm_as_json(row: ArmRow) -> dict[str, object]:
    facts = asdict(replace(row, failures=(), measures={}))
    del facts["measures"]
    measures = {name: asdict(measure) for name, measure in row.measures.items()}
    return {**facts, **measures, "failures": _errors(row.failures)}


def _errors(results: Sequence[RunResult]) -> list[dict[str, object]]:
    return [
        {"level": result.level, "arm": result.arm, "seed": result.seed, "error": result.error} for result in results
    ]
