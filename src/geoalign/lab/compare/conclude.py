"""The table of a comparison: on the terminal, as JSON and CSV, and the report."""

from __future__ import annotations

from pandas import DataFrame

from geoalign.console.numbers import ends, estimate, score_writers, short
from geoalign.console.terminal import Console, print_rows, say, say_paragraph
from geoalign.files.durable import write_atomically
from geoalign.files.json_files import write_json
from geoalign.lab.compare.analysis import read_table, table_as_json
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.settings import CompareConfig
from geoalign.lab.compare.table import ArmRow, LevelTable, Table, metric_words, shown_statements
from geoalign.lab.runs.generations import OWN_SCORE
from geoalign.lab.runs.numbers import APPLIED, OBSERVED
from geoalign.statistics import UNKNOWN, Interval


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
    write, write_difference = score_writers(plan.metric)
    columns = {"arm": [row.arm for row in rows]}
    counts = [_seeds(row) for row in rows]
    if len(set(counts)) > 1:
        columns["seeds"] = counts
    if plan.metric == "reward" and level.has_gold:
        columns["gold reward"] = [short(row.gold.shown.estimate) for row in rows]
    metric = metric_words(level, plan)
    columns[metric] = [write(row.score.shown.estimate) for row in rows]
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


def _seeds(row: ArmRow) -> str:
    """How many seeds the numbers of a row are of, and how many failed."""
    pairs = row.score.difference.pairs
    finished = len(row.seeds)
    counted = f"{pairs} of {finished}" if 0 < pairs < finished else str(finished)
    return f"{counted} ({len(row.failures)} failed)" if row.failures else counted


def _print_detection(console: Console, level: LevelTable) -> None:
    """How well the arms' scores find wrong rewards, and how close their advantages come to the true ones."""
    rows = []
    for row in level.judged:
        own = row.detection.row(OWN_SCORE) if row.detection else None
        area = short(own.auroc.estimate if own else None)
        cosines = [short(row.measures[name].interval.estimate) for name in (OBSERVED, APPLIED)]
        rows.append([row.arm, area, *cosines])
    heads = ["arm", "AUROC", "cosine before curation", "cosine after curation"]
    print_rows(console, f"{level.level}: how well wrong rewards were found", heads, rows)


def _print_statements(console: Console, level: LevelTable) -> None:
    """The headroom and the planned comparisons, or a few of the others where none was planned."""
    shown, further = shown_statements(level)
    for statement in shown:
        say_paragraph(console, statement.text, bullet="- ")
    if level.footnote:
        say_paragraph(console, level.footnote, bullet="- ")
    if further:
        words = "1 further comparison is" if len(further) == 1 else f"{len(further)} further comparisons are"
        say_paragraph(console, f"{words} on the page and in table.json.", bullet="- ")


def as_csv(table: Table) -> str:
    """One line per arm and level: of each measure the mean over seeds, its 95% interval, and the paired difference to
    the baseline with its interval and number of seeds; then how corrupted rewards were detected. Undefined values are
    empty."""
    rows = [_csv_row(row, level) for level in table.levels for row in level.rows]
    return DataFrame(rows).to_csv(index=False, float_format="%.6g", lineterminator="\n")


def _csv_row(row: ArmRow, level: LevelTable) -> dict[str, object]:
    """The columns of `table.csv` for one arm at one level."""
    columns: dict[str, object] = {
        "level": level.level,
        "rate": level.rate,
        "arm": row.arm,
        "role": row.role,
        "curator": row.curator,
        "seeds": len(row.seeds),
        "failed": len(row.failures),
    }
    for name, measure in row.measures.items():
        columns |= _ends(name, "mean", measure.interval)
        columns |= _ends(name, "difference", measure.difference.interval)
    columns |= {f"{name}_pairs": measure.difference.pairs for name, measure in row.measures.items()}
    found = row.detection
    own = found.row(OWN_SCORE) if found else None
    control = found.row(found.control) if found else None
    return {
        **columns,
        **_ends("auroc", "mean", own.auroc if own else UNKNOWN),
        **_ends("average_precision", "mean", own.auprc if own else UNKNOWN),
        # Of the better direction of the pair count.
        **_ends("pair_count_auroc", "mean", control.auroc if control else UNKNOWN),
        **_ends("corrupted_among_replaced", "mean", found.precision if found else UNKNOWN),
        **_ends("corrupted", "mean", found.base_rate if found else UNKNOWN),
    }


def _ends(name: str, middle: str, interval: Interval) -> dict[str, float]:
    """Estimate, lower and upper end of an interval as columns: `NAME_mean`, `NAME_low`, `NAME_high` for "mean"."""
    prefix = name if middle == "mean" else f"{name}_{middle}"
    return {f"{name}_{middle}": interval.estimate, f"{prefix}_low": interval.low, f"{prefix}_high": interval.high}
