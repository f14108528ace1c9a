"""What `geoalign audit` prints: the finding, the rates, five rows, what to do next, the files, then details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas
from rich.table import Table
from rich.text import Text

from geoalign.audit.folder import (
    CHECKS_FILE,
    FILTERED_FILE,
    FLAGGED_FILE,
    GOLDS_FILE,
    REPORT_FILE,
    SCORES_FILE,
    SUMMARY_FILE,
    VERDICTS_FILE,
)
from geoalign.audit.prompts import without_beginning
from geoalign.audit.results import AuditReport
from geoalign.audit.words import Words
from geoalign.audit.words.golds import golds_table
from geoalign.audit.words.next_steps import flagged_command, labels_file
from geoalign.audit.words.several_verifiers import HEADS
from geoalign.console.numbers import short
from geoalign.console.terminal import Console, say, say_paragraph
from geoalign.text import shortened

# Rows of evidence; all flagged ones stand in the folder.
_ROWS = 5
# What a table shows of a prompt or a response, and of an answer.
_TEXT = 60
_ANSWER = 16
# From so many columns on a prompt is shown beside why its reward looks wrong.
_WIDE = 72
_WHY = "why it looks wrong"
_BETWEEN_COLUMNS = 2
# Characters that the column of reasons keeps on a narrow terminal.
_LEAST_REASON = 24

_FILES = {
    REPORT_FILE: "the page",
    FLAGGED_FILE: "rewards that look wrong, for a spreadsheet",
    VERDICTS_FILE: "what every verifier says of each rollout",
    CHECKS_FILE: "rows drawn at random, to be labelled right or wrong",
    FILTERED_FILE: "the rollouts that remain, with new rewards",
    GOLDS_FILE: "prompts whose most frequent answer was refused",
    SCORES_FILE: "every rollout with what was found",
    SUMMARY_FILE: "every number printed here",
}


def show_report(console: Console, report: AuditReport) -> None:
    """Prints what an audit found, in the order in which a reader needs it.

    Args:
        report: of an audit with an output folder, whose files are named.
    """
    words = report.words
    for symptom in words.degenerate:
        _heading(console, symptom)
    _heading(console, words.finding.headline)
    _paragraph(console, words.finding.reason)
    if words.unread_answers:
        _paragraph(console, words.unread_answers)
    _show_rates(console, words)
    _show_several_verifiers(console, report)
    if words.finding.level == "flagged":
        _show_rows(console, report)
    golds = golds_table(report.summary, most=_ROWS)
    if golds["prompt"]:
        _show_golds(console, words.suspicious_golds, golds)
    assert report.folder is not None
    _show_next_steps(console, report, report.folder)
    _show_files(console, report, report.folder)
    _heading(console, "Details")
    golds_in_short = [words.suspicious_golds] if words.suspicious_golds and not golds["prompt"] else []
    for line in (*words.read, *words.others, *golds_in_short, *words.compared):
        _paragraph(console, line)


# --- the sections -----------------------------------------------------------------------------------------------------


def _show_rates(console: Console, words: Words) -> None:
    """The error rates of the verifier, and what is known of it beside them."""
    known = words.verifier
    paragraphs = [*known.notes]
    if words.second_verifier:
        paragraphs.append(words.second_verifier)
    if not known.rates and not paragraphs and not known.next_command:
        return
    _heading(console, "What the verifier gets wrong")
    if known.rates:
        table = _table()
        for rate in known.rates:
            table.add_row(Text(rate.name), Text(rate.value), Text(rate.by))
        _print_table(console, table, indent=2)
    for paragraph in paragraphs:
        _paragraph(console, paragraph)
    if known.next_command:
        _paragraph(console, known.next_when)
        _line(console, known.next_command)


def _show_several_verifiers(console: Console, report: AuditReport) -> None:
    """What each of several verifiers accepts, who contradicts whom on which rows, and a ranking."""
    several = report.words.several
    if not several.table:
        return
    _heading(console, "Several verifiers on the same rows")
    _print_cells(console, HEADS, several.table)
    for note in several.notes:
        _paragraph(console, note)
    if several.pairs:
        _heading(console, "Who contradicts whom")
        _print_cells(
            console, ("accepted by one alone", "by the other alone", "rows to look at"), _contradictions(report)
        )
        if several.more_pairs:
            _paragraph(console, several.more_pairs)
    for mode in several.modes:
        _heading(console, mode.title)
        _print_cells(console, ("verifier", "wrong accepted", "right refused"), mode.rates)
    _paragraph(console, several.model)
    _paragraph(console, several.ranking)


def _contradictions(report: AuditReport) -> list[tuple[str, str, str]]:
    """For both directions of each pair: who accepts alone and how often, who refuses, and where some rows stand."""
    cells = []
    for pair in report.words.several.pairs:
        first = f"{pair.first}: {pair.first_alone:,}"
        second = f"{pair.second}: {pair.second_alone:,}"
        cells.append((first, second, ", ".join(report.place(row) for row in pair.rows)))
    return cells


def _show_rows(console: Console, report: AuditReport) -> None:
    """The most suspicious rewards, each of another group if there are enough, as a table of five columns at most."""
    flagged = report.flagged
    again = flagged["group"].duplicated()
    rows = report.with_texts(pandas.concat([flagged[~again], flagged[again]]).head(_ROWS))
    if len(flagged) > len(rows):
        _heading(console, f"{len(rows)} of these {len(flagged):,} rewards")
    else:
        _heading(console, "The rewards that look wrong")
    # On a narrow terminal the line tells the prompt, so that the reason has room.
    cells = _evidence(report, rows, prompts=console.width >= _WIDE)
    table = _table(show_header=True)
    for head in cells:
        wraps = head in (_WHY, "where")
        table.add_column(
            Text(head),
            justify="right" if head == "reward" else "left",
            no_wrap=not wraps,
            overflow="fold" if wraps else "ellipsis",
            # A prompt gives way where the terminal is too narrow for all columns, the reason down to some words.
            max_width=console.width // 3 if head in ("prompt", "response") else None,
            min_width=_LEAST_REASON if head == _WHY else None,
        )
    for row in zip(*cells.values(), strict=True):
        table.add_row(*map(Text, row))
    _print_table(console, table, indent=2)


def _evidence(report: AuditReport, rows: pandas.DataFrame, *, prompts: bool) -> dict[str, list[str]]:
    """The columns of the table of evidence, by what stands above them."""
    columns = {"where": [report.place(index) for index in rows.index]}
    if report.has_texts and prompts:
        prompts_shown = [without_beginning(prompt, report.common_beginning) for prompt in rows["prompt"]]
        columns["prompt"] = [shortened(prompt, _TEXT) for prompt in prompts_shown]
    if rows["final_answer"].notna().any():
        answers = rows["final_answer"].fillna("none")
        columns["answer"] = [shortened(answer, _ANSWER) for answer in answers]
    elif report.has_texts:
        columns["response"] = [shortened(response, _TEXT) for response in rows["response"]]
    columns["reward"] = [short(reward) for reward in rows["reward"]]
    columns[_WHY] = rows["why"].tolist()
    return columns


def _show_golds(console: Console, how_many: str, golds: Mapping[str, list[str]]) -> None:
    """The gold answers that look most wrong."""
    _heading(console, "Gold answers that look wrong")
    _paragraph(console, how_many)
    rows = []
    for row in zip(*golds.values(), strict=True):
        rows.append([shortened(cell, 2 * _ANSWER) for cell in row])
    _print_cells(console, list(golds), rows)


def _show_next_steps(console: Console, report: AuditReport, folder: Path) -> None:
    """What to do now: look at the page, label, ask for more; commands ready to be copied."""
    summary = report.summary
    takes_labels = summary["label_command"] is not None and summary["counts"]["flagged"] > 0
    # The page has its buttons for verdicts alone: of a score nobody says that it is right.
    labels_on_page = takes_labels and report.verdicts is not None
    _heading(console, "What to do next")
    and_label = ", and say which are right and which are wrong" if labels_on_page else ""
    _paragraph(console, f"Look at the rewards in a browser{and_label}:")
    _line(console, str(folder / REPORT_FILE))
    if labels_on_page:
        _paragraph(console, f"Then audit again with the labels that the page saves as {labels_file(summary)}:")
        _line(console, summary["label_command"])
    elif takes_labels:
        _paragraph(
            console, f"Write true rewards into the column `label` of {FLAGGED_FILE}, then audit again with them:"
        )
        _line(console, flagged_command(summary))
    following = summary["next"]
    # That flagged.csv takes labels is said already, of the page if not of the table.
    if following is not None and following["command"] != flagged_command(summary):
        _paragraph(console, f"{following['when']}:")
        _line(console, following["command"])


def _show_files(console: Console, report: AuditReport, folder: Path) -> None:
    """The files of the output folder, and what became of the rewards in the file of those that remain."""
    _heading(console, "Files")
    _line(console, f"{folder}/", indent=2)
    table = _table()
    for name, content in _FILES.items():
        is_empty = name == FLAGGED_FILE and not report.summary["counts"]["flagged"]
        if (folder / name).is_file() and not is_empty:
            table.add_row(Text(name), Text(content))
    _print_table(console, table, indent=4)
    if report.words.exported:
        _paragraph(console, report.words.exported)
    if report.words.filtered:
        _paragraph(console, report.words.filtered)


# --- lines ------------------------------------------------------------------------------------------------------------


def _heading(console: Console, text: str) -> None:
    console.print()
    say_paragraph(console, text, style="bold")


def _paragraph(console: Console, text: str) -> None:
    say_paragraph(console, text, bullet="  ")


def _line(console: Console, text: str, indent: int = 4) -> None:
    """A path or a command: never broken, so that it can be copied."""
    say(console, f"{' ' * indent}{text}")


def _table(*, show_header: bool = False) -> Table:
    """An empty table without lines around its cells."""
    return Table(
        box=None, show_header=show_header, header_style="", pad_edge=False, padding=(0, _BETWEEN_COLUMNS, 0, 0)
    )


def _print_cells(console: Console, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints rows of texts under their heads."""
    table = _table(show_header=True)
    for head in heads:
        table.add_column(Text(head), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    _print_table(console, table, indent=2)


def _print_table(console: Console, table: Table, *, indent: int) -> None:
    """Prints a table behind `indent` spaces, without spaces at the ends of its lines."""
    options = console.options.update(width=max(console.width - indent, 1))
    for line in console.render_lines(table, options, pad=False):
        written = "".join(segment.text for segment in line)
        _line(console, written.rstrip(), indent)
