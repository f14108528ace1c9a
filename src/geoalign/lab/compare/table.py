"""The table of a comparison: on the terminal, as JSON and CSV, and the report."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable
from dataclasses import astuple

from rich.table import Table as Drawn

from geoalign.lab.analysis.comparison.analysis import read_table, table_as_json
from geoalign.lab.analysis.comparison.scores import MEASURES
from geoalign.lab.analysis.comparison.table import ArmRow, LevelTable, Table
from geoalign.lab.config.compare import METRICS, CompareConfig
from geoalign.lab.numbers import estimate, short, signed
from geoalign.lab.store.comparison import ComparisonFolder
from geoalign.lab.store.files import write_atomically
from geoalign.lab.store.json_files import write_json
from geoalign.lab.terminal import Console


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
    """Prints per level scores, detection and the sentences, and what was recovered; then failures and notes."""
    for level in table.levels:
        console.print(_scores(level, table.plan))
        if (detection := _detection(level)) is not None:
            console.print(detection)
        for statement in level.statements:
            console.print(f"- {statement.text}", markup=False, highlight=False, soft_wrap=True)
        if (found := level.recovery) is not None:
            words = f"{found.headline} {found.footnote}"
            console.print(words, markup=False, highlight=False, soft_wrap=True, style="bold")
        console.print()
    for failure in table.failures:
        where = f"{failure.level}/{failure.arm}/seed-{failure.seed}"
        console.print(f"Failed: {where}: {failure.error}", style="red", markup=False, highlight=False, soft_wrap=True)
    for note in table.notes:
        console.print(note, markup=False, highlight=False, soft_wrap=True)


def _scores(level: LevelTable, plan: CompareConfig) -> Drawn:
    drawn = _columns(
        f"{level.level}: {METRICS[plan.metric]}, mean and 95% interval over seeds",
        ("arm", "seeds", f"last {plan.last_evaluations} evaluations", f"minus {plan.baseline}"),
    )
    for row in level.rows:
        failed = f" ({len(row.failures)} failed)" if row.failures else ""
        difference = "" if row.arm == plan.baseline else estimate(row.score.difference.interval, signed)
        drawn.add_row(row.arm, f"{len(row.seeds)}{failed}", estimate(row.score.interval), difference)
    return drawn


def _detection(level: LevelTable) -> Drawn | None:
    if not level.judged:
        return None
    drawn = _columns(
        f"{level.level}: finding the corrupted rollouts, means over seeds; cosine with the true rewards' advantages",
        ("arm", "AUROC", "of pair count", "AUPRC", "replaced", "right", "base", "cosine", "uncurated"),
    )
    for row in level.judged:
        detection = row.detection
        own, control = (detection.row("score"), detection.row(detection.control)) if detection else (None, None)
        drawn.add_row(
            row.arm,
            short(own.auroc.estimate if own else None),
            short(control.auroc.estimate if control else None),
            short(own.auprc.estimate if own else None),
            _mean(row, "replaced"),
            short(detection.precision.estimate if detection else None),
            short(detection.base_rate.estimate if detection else None),
            _mean(row, "advantage_cosine"),
            _mean(row, "observed_advantage_cosine"),
        )
    return drawn


def _mean(row: ArmRow, name: str) -> str:
    return short(row.measures[name].interval.estimate)


def _columns(title: str, names: Iterable[str]) -> Drawn:
    drawn = Drawn(title=title, title_justify="left")
    for name in names:
        drawn.add_column(name, justify="left" if name == "arm" else "right", overflow="fold")
    return drawn


def as_csv(table: Table) -> str:
    """One line per arm and level: of each measure the mean over seeds, its 95% interval, and the paired difference to
    the baseline with its interval. Undefined values are empty."""
    parts = ("mean", "low", "high", "difference", "difference_low", "difference_high")
    columns = ["level", "rate", "arm", "role", "curator", "seeds", "failed"]
    columns += [f"{name}_{part}" for name in MEASURES for part in parts]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for level in table.levels:
        for row in level.rows:
            head = [level.level, *_cells([level.rate]), row.arm, row.role, row.curator]
            counts = [len(row.seeds), len(row.failures)]
            found = (of for name in MEASURES for of in (row.measures[name], row.measures[name].difference))
            writer.writerow([*head, *counts, *_cells(number for of in found for number in astuple(of.interval))])
    return text.getvalue()


def _cells(numbers: Iterable[float]) -> list[str]:
    return ["" if math.isnan(number) else f"{number:.6g}" for number in numbers]
