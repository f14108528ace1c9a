"""The table of a comparison: on the terminal, as JSON and CSV, and the report."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import astuple

from geoalign.lab.analysis.comparison.analysis import read_table, table_as_json
from geoalign.lab.analysis.comparison.scores import MEASURES
from geoalign.lab.analysis.comparison.table import ArmRow, LevelTable, Measure, Table
from geoalign.lab.analysis.detection import OWN_SCORE, Detection, ScoreDetection
from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.config.compare import METRICS, CompareConfig
from geoalign.lab.numbers import ends, estimate, short, signed
from geoalign.lab.store.comparison import ComparisonFolder
from geoalign.lab.store.files import write_atomically
from geoalign.lab.store.json_files import write_json
from geoalign.lab.terminal import Console, print_named_rows


def conclude(folder: ComparisonFolder, console: Console) -> None:
    """Writes `table.json`, `table.csv` and the report of what the folder holds, and prints the table."""
    from geoalign.lab.reports.comparison.page import build_comparison_report

    table = read_table(folder.root)
    write_json(folder.table, table_as_json(table))
    write_atomically(folder.table_csv, as_csv(table))
    print_table(console, table)
    page = build_comparison_report(folder.root, table)
    console.print(f"Report: {page}", soft_wrap=True, highlight=False)


def print_table(console: Console, table: Table) -> None:
    """Prints per level what was recovered, then scores, detection and the sentences; then failures and notes."""
    for level in table.levels:
        if level.recovery is not None:
            console.print(level.recovery.headline, markup=False, highlight=False, soft_wrap=True, style="bold")
        _print_scores(console, level, table.plan)
        if level.judged:
            _print_detection(console, level)
        for statement in level.statements:
            console.print(f"- {statement.text}", markup=False, highlight=False, soft_wrap=True)
        if level.recovery is not None:
            console.print(f"- {level.recovery.footnote}", markup=False, highlight=False, soft_wrap=True)
        console.print()
    for failure in table.failures:
        where = f"{failure.level}/{failure.arm}/seed-{failure.seed}"
        console.print(f"Failed: {where}: {failure.error}", style="red", markup=False, highlight=False, soft_wrap=True)
    for note in table.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)


def _print_scores(console: Console, level: LevelTable, plan: CompareConfig) -> None:
    """Final scores and differences; where the metric is a proxy of the truth, the truth first."""
    with_truth = plan.metric == "reward" and any(not math.isnan(row.gold.interval.estimate) for row in level.rows)
    metric, truth = METRICS[plan.metric], METRICS["gold_utility"]
    heads = ["arm", "seeds", metric, f"minus {plan.baseline}", "95% interval"]
    if with_truth:
        heads = ["arm", "seeds", truth, metric, f"minus {plan.baseline} (95% interval)"]
    rows = []
    for row in level.rows:
        difference = row.score.difference.interval
        cells = [row.arm, _seeds(row), short(_beside(row.score).estimate)]
        if with_truth:
            cells.insert(2, short(_beside(row.gold).estimate))
        if row.arm == plan.baseline:
            cells += ["", ""][: len(heads) - len(cells)]
        elif with_truth:
            cells.append(estimate(difference, signed))
        else:
            cells += [signed(difference.estimate), ends(difference, signed)]
        rows.append(cells)
    title = f"{level.level}: mean over seeds and the last {plan.last_evaluations} evaluations"
    print_named_rows(console, title, heads, rows)


def _beside(measure: Measure) -> Interval:
    """The mean over the seeds of the difference that stands beside it; of an arm without any over all that it has."""
    return measure.paired if measure.difference.pairs else measure.interval


def _seeds(row: ArmRow) -> str:
    """How many seeds the numbers of a row are of, and how many failed."""
    pairs, finished = row.score.difference.pairs, len(row.seeds)
    counted = f"{pairs} of {finished}" if 0 < pairs < finished else str(finished)
    return f"{counted} ({len(row.failures)} failed)" if row.failures else counted


def _print_detection(console: Console, level: LevelTable) -> None:
    """How the arms' scores rank corrupted rollouts, and how close their advantages come to the true ones."""
    heads = ("arm", "AUROC", "of pair count", "cosine", "uncurated")
    rows = []
    for row in level.judged:
        own, control = _own_and_control(row.detection)
        areas = [short(found.auroc.estimate if found else None) for found in (own, control)]
        cosines = [_mean(row, name) for name in ("advantage_cosine", "observed_advantage_cosine")]
        rows.append([row.arm, *areas, *cosines])
    title = f"{level.level}: ranking of the corrupted rollouts; cosine with the advantages of the true rewards"
    print_named_rows(console, title, heads, rows)


def _own_and_control(found: Detection | None) -> tuple[ScoreDetection | None, ScoreDetection | None]:
    """The detection by an arm's own score and by the pair count."""
    return (found.row(OWN_SCORE), found.row(found.control)) if found is not None else (None, None)


def _mean(row: ArmRow, name: str) -> str:
    return short(row.measures[name].interval.estimate)


def as_csv(table: Table) -> str:
    """One line per arm and level: of each measure the mean over seeds, its 95% interval, and the paired difference to
    the baseline with its interval and number of seeds; then how corrupted rewards were detected. Undefined values are
    empty."""
    parts = ("mean", "low", "high", "difference", "difference_low", "difference_high")
    columns = ["level", "rate", "arm", "role", "curator", "seeds", "failed"]
    columns += [f"{name}_{part}" for name in MEASURES for part in parts]
    columns += [f"{name}_pairs" for name in MEASURES]
    columns += [f"{name}_{part}" for name in _DETECTED for part in parts[:3]]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for level in table.levels:
        for row in level.rows:
            head = [level.level, *_cells([level.rate]), row.arm, row.role, row.curator]
            counts = [len(row.seeds), len(row.failures)]
            measures = [row.measures[name] for name in MEASURES]
            intervals = [interval for one in measures for interval in (one.interval, one.difference.interval)]
            pairs = [one.difference.pairs for one in measures]
            detected = _detected(row.detection)
            writer.writerow([*head, *counts, *_ends(intervals), *pairs, *_ends(detected)])
    return text.getvalue()


# Of an arm's own score, and of the better direction of the pair count; of the replaced rollouts and of all in a pair.
_DETECTED = ("auroc", "average_precision", "pair_count_auroc", "corrupted_among_replaced", "corrupted")


def _detected(found: Detection | None) -> list[Interval]:
    """The numbers of `_DETECTED`, NaN where unknown."""
    unknown = Interval(math.nan, math.nan, math.nan)
    own, control = _own_and_control(found)
    return [
        own.auroc if own else unknown,
        own.auprc if own else unknown,
        control.auroc if control else unknown,
        found.precision if found else unknown,
        found.base_rate if found else unknown,
    ]


def _ends(intervals: Iterable[Interval]) -> list[str]:
    """Estimate, lower and upper end of each interval."""
    return _cells(number for interval in intervals for number in astuple(interval))


def _cells(numbers: Iterable[float]) -> list[str]:
    return ["" if math.isnan(number) else f"{number:.6g}" for number in numbers]
