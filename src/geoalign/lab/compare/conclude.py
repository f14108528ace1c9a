"""The table of a comparison: on the terminal, as JSON and CSV, and the report."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import astuple

from geoalign.console.numbers import ends, estimate, score_writers, short
from geoalign.console.terminal import Console, print_rows, say, say_paragraph
from geoalign.files.durable import write_atomically
from geoalign.files.json_files import write_json
from geoalign.lab.compare.analysis import read_table, table_as_json
from geoalign.lab.compare.cell_numbers import MEASURES
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.settings import METRICS, CompareConfig
from geoalign.lab.compare.table import PRIMARY, ArmRow, LevelTable, Measure, Table
from geoalign.lab.runs.detection import OWN_SCORE, Detection, ScoreDetection
from geoalign.lab.runs.logged import APPLIED, OBSERVED
from geoalign.statistics import Interval


def conclude(folder: ComparisonFolder, console: Console) -> None:
    """Writes `table.json`, `table.csv` and the report of what the folder holds, and prints the table."""
    from geoalign.lab.compare.page import build_comparison_report

    table = read_table(folder.root)
    write_json(folder.table, table_as_json(table))
    write_atomically(folder.table_csv, as_csv(table))
    print_table(console, table)
    page = build_comparison_report(folder.root, table)
    say(console, f"Report: {page}")


_HOW_FOUND = (
    "AUROC: how well the curator's score ranks wrong rewards above the others; 0.5 is chance. Cosine: of the "
    "advantages with those of the true rewards; 1 is learning from true rewards."
)


def print_table(console: Console, table: Table) -> None:
    """Prints what was found at each level and what failed, then the tables of each level, then notes."""
    for level in table.levels:
        if level.headline:
            say_paragraph(console, f"{level.level}: {level.headline}", style="bold")
    for failure in table.failures:
        where = f"{failure.level}/{failure.arm}/seed-{failure.seed}"
        say(console, f"Failed: {where}: {failure.error}", style="red")
    for level in table.levels:
        console.print()
        _print_scores(console, level, table.plan)
        if level.judged:
            _print_detection(console, level)
        _print_statements(console, level)
    notes = [_HOW_FOUND] if any(level.judged for level in table.levels) else []
    notes += table.notes
    if notes:
        console.print()
    for note in notes:
        say_paragraph(console, note)


def _print_scores(console: Console, level: LevelTable, plan: CompareConfig) -> None:
    """Final scores and their gains over the baseline; where the score is a proxy of the truth, the truth first."""
    rows = [row for row in level.rows if row.seeds or row.failures]
    columns = {"arm": [row.arm for row in rows]}
    counts = [_seeds(row) for row in rows]
    if len(set(counts)) > 1:
        columns["seeds"] = counts
    if plan.metric == "reward" and any(not math.isnan(row.gold.interval.estimate) for row in rows):
        columns["gold reward"] = [short(_paired_mean(row.gold)) for row in rows]
        metric = "proxy reward"
    else:
        metric = METRICS[plan.metric]
    write, write_difference = score_writers(plan.metric)
    columns[metric] = [write(_paired_mean(row.score)) for row in rows]
    gains = [None if row.arm == plan.baseline else row.score.difference.interval for row in rows]
    head = f"gain over {plan.baseline}"
    if len(columns) < 4:
        columns[head] = ["" if gain is None else write_difference(gain.estimate) for gain in gains]
        columns["95% interval"] = ["" if gain is None else ends(gain, write_difference) for gain in gains]
    else:
        columns[head] = ["" if gain is None else estimate(gain, write_difference) for gain in gains]
    title = f"{level.level}: {metric} after training, mean of the last {plan.last_evaluations} evaluations"
    if len(set(counts)) == 1:
        title += " of one seed" if counts[0] == "1" else f" and of {counts[0]} seeds"
    print_rows(console, title, list(columns), list(zip(*columns.values(), strict=True)))


def _paired_mean(measure: Measure) -> float:
    """The mean over the seeds of the gain next to it; of an arm without any gain over all seeds that it has."""
    return (measure.paired if measure.difference.pairs else measure.interval).estimate


def _seeds(row: ArmRow) -> str:
    """How many seeds the numbers of a row are of, and how many failed."""
    pairs, finished = row.score.difference.pairs, len(row.seeds)
    counted = f"{pairs} of {finished}" if 0 < pairs < finished else str(finished)
    return f"{counted} ({len(row.failures)} failed)" if row.failures else counted


def _print_detection(console: Console, level: LevelTable) -> None:
    """How well the arms' scores find wrong rewards, and how close their advantages come to the true ones."""
    rows = []
    for row in level.judged:
        own, _ = _own_and_control(row.detection)
        area = short(None if own is None else own.auroc.estimate)
        cosines = [short(row.measures[name].interval.estimate) for name in (OBSERVED, APPLIED)]
        rows.append([row.arm, area, *cosines])
    heads = ["arm", "AUROC", "cosine before curation", "cosine after curation"]
    print_rows(console, f"{level.level}: how well wrong rewards were found", heads, rows)


# So many sentences on comparisons that were not planned are printed where none was.
_MOST_UNPLANNED = 4


def _print_statements(console: Console, level: LevelTable) -> None:
    """The headroom and the planned comparisons, or a few of the others where none was planned."""
    headroom, *others = level.statements
    planned = [item for item in others if item.kind == PRIMARY]
    shown = planned or others[:_MOST_UNPLANNED]
    for statement in (headroom, *shown):
        say_paragraph(console, statement.text, bullet="- ")
    if level.footnote:
        say_paragraph(console, level.footnote, bullet="- ")
    left_out = len(others) - len(shown)
    if left_out:
        words = "1 further comparison is" if left_out == 1 else f"{left_out} further comparisons are"
        say_paragraph(console, f"{words} on the page and in table.json.", bullet="- ")


def _own_and_control(found: Detection | None) -> tuple[ScoreDetection | None, ScoreDetection | None]:
    """The detection by an arm's own score and by the pair count."""
    return (found.row(OWN_SCORE), found.row(found.control)) if found is not None else (None, None)


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
