"""What `geoalign audit` prints: the finding, the rates, five rows, what to do next, the files, then details.

It also says where `--fail-above` makes the command fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from geoalign.audit.flags import flag_reasons, to_look_at_first
from geoalign.audit.folder import FILTERED_FILE, FLAGGED_FILE, REPORT_FILE, SCORES_FILE, SUMMARY_FILE
from geoalign.audit.grouping import grouping_remarks, grouping_words, sizes_lines
from geoalign.audit.next_steps import label_command
from geoalign.audit.prompts import common_beginning, without_beginning
from geoalign.audit.results import AuditResults
from geoalign.audit.words import (
    Finding,
    filtered,
    finding,
    judged_by_spelling,
    new_prompts,
    refused,
    second_verifier,
    trained_on,
    unread_answers,
    verifier,
)
from geoalign.console.numbers import counted, short
from geoalign.console.terminal import Console, say, say_paragraph
from geoalign.dumps.row_names import counted_in, row_name
from geoalign.text import quote, visible

# Rows of evidence, and files, rows and prompts that are named; all of them stand in the folder.
_ROWS = 5
_NAMED = 3
# What a table shows of a prompt or a response, and of an answer.
_TEXT, _ANSWER = 60, 16
# From so many columns on a prompt is shown beside why its reward looks wrong.
_WIDE = 72
_WHY = "why it looks wrong"
_BETWEEN_COLUMNS = 2
# How columns give way where a terminal is too narrow for them: in this order, each down to so many characters.
_GIVES_WAY = ((_WHY, 24), ("prompt", 14), ("response", 14), ("answer", 8), ("where", 14), (_WHY, len(_WHY)))


def show_result(console: Console, audit: AuditResults) -> None:
    """Prints what an audit found, in the order in which a reader needs it."""
    summary = audit.summary
    found = finding(summary)
    _heading(console, found.headline)
    _paragraph(console, found.reason)
    unread = unread_answers(summary)
    if unread:
        _paragraph(console, unread)
    _show_rates(console, summary)
    if found.level == "flagged":
        _show_rows(console, audit)
    _show_next_steps(console, audit, found)
    _show_files(console, audit)
    _heading(console, "Details")
    for line in _details(summary):
        _paragraph(console, line)


def _heading(console: Console, text: str) -> None:
    console.print()
    say_paragraph(console, text, style="bold")


def _paragraph(console: Console, text: str) -> None:
    say_paragraph(console, text, bullet="  ")


def _line(console: Console, text: str, indent: int = 4) -> None:
    """A path or a command: never broken, so that it can be copied."""
    say(console, f"{' ' * indent}{text}")


def _show_rates(console: Console, summary: Mapping[str, Any]) -> None:
    told = verifier(summary)
    checks = [line for line in [second_verifier(summary)] if line]
    if not (told.rates or told.notes or checks):
        return
    _heading(console, "What the verifier gets wrong")
    if told.rates:
        table = _table()
        for rate in told.rates:
            table.add_row(Text(rate.name), Text(rate.value), Text(rate.by))
        _print_table(console, table, indent=2)
    for note in [*told.notes, *checks]:
        _paragraph(console, note)


def _show_rows(console: Console, audit: AuditResults) -> None:
    """The most suspicious rewards as a table of five columns at most."""
    rows = to_look_at_first(audit.scored, _ROWS)
    flagged = audit.summary["counts"]["flagged"]
    heading = f"{len(rows)} of these {flagged:,} rewards" if flagged > len(rows) else "The rewards that look wrong"
    _heading(console, heading)
    # On a narrow terminal the line tells the prompt, so that the reason has room.
    cells = _cells(audit, rows, prompts=console.width >= _WIDE)
    widths = evidence_widths(cells, console.width)
    table = _table(show_header=True)
    for head in cells:
        wraps = head in (_WHY, "where")
        table.add_column(
            Text(head),
            justify="right" if head == "reward" else "left",
            no_wrap=not wraps,
            overflow="fold" if wraps else "ellipsis",
            width=widths[head],
        )
    for row in zip(*cells.values(), strict=True):
        table.add_row(*map(Text, row))
    _print_table(console, table, indent=2)


def evidence_widths(cells: Mapping[str, Sequence[str]], terminal: int) -> dict[str, int]:
    """How wide each column of the table of evidence is: as its cells are, while the terminal has room for them."""
    widths = {head: max(cell_len(text) for text in (head, *column)) for head, column in cells.items()}
    for head in ("prompt", "response"):
        if head in widths:
            widths[head] = min(widths[head], terminal // 3)
    room = terminal - 2 - _BETWEEN_COLUMNS * (len(cells) - 1)
    for head, least in _GIVES_WAY:
        missing = sum(widths.values()) - room
        if head in widths and missing > 0:
            widths[head] = max(widths[head] - missing, min(least, widths[head]))
    return widths


def _cells(audit: AuditResults, rows: pandas.DataFrame, *, prompts: bool) -> dict[str, list[str]]:
    """The columns of the table of evidence, by what stands above them."""
    texts = audit.texts(rows.index.tolist())
    reasons = flag_reasons(audit)
    several_files = audit.scored["file"].nunique() > 1
    columns = {"where": [_place(row, several_files=several_files) for row in rows.itertuples()]}
    if texts and prompts:
        common = common_beginning(audit)
        columns["prompt"] = [_short(without_beginning(texts[index][0], common), _TEXT) for index in rows.index]
    if rows["final_answer"].notna().any():
        columns["answer"] = [_short(a, _ANSWER) if isinstance(a, str) else "none" for a in rows["final_answer"]]
    elif texts:
        columns["response"] = [_short(texts[index][1], _TEXT) for index in rows.index]
    columns["reward"] = [short(reward) for reward in rows["reward"]]
    columns[_WHY] = [reasons[index] for index in rows.index]
    return columns


def _place(row: Any, *, several_files: bool) -> str:
    """Where a rollout stands in the input: its line, and the file where there are several."""
    file = Path(row.file)
    place = f"{counted_in(file)} {row.line}"
    return f"{file.name}, {place}" if several_files else place


def _short(text: str, most: int) -> str:
    """A text on one line, cut to so many characters."""
    line = " ".join(visible(text, 4 * most).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _table(*, show_header: bool = False) -> Table:
    return Table(
        box=None, show_header=show_header, header_style="", pad_edge=False, padding=(0, _BETWEEN_COLUMNS, 0, 0)
    )


def _print_table(console: Console, table: Table, *, indent: int) -> None:
    """Prints a table behind `indent` spaces, without spaces at the ends of its lines."""
    options = console.options.update(width=max(console.width - indent, 1))
    for line in console.render_lines(table, options, pad=False):
        written = "".join(segment.text for segment in line)
        _line(console, written.rstrip(), indent)


def _show_next_steps(console: Console, audit: AuditResults, found: Finding) -> None:
    """What to do now: look at the page, label, ask for more; commands ready to be copied."""
    summary = audit.summary
    following = summary["next"]
    labels = summary["label_command"] if found.level == "flagged" else None
    # The page has its buttons for verdicts alone: of a score nobody says that it is right.
    verdicts = audit.scored["reward"].nunique() == 2
    _heading(console, "What to do next")
    look = "Look at the rewards in a browser"
    if labels is not None and verdicts:
        look = "Look at the rewards in a browser, and say which are right and which are wrong"
    _paragraph(console, f"{look}:")
    _line(console, str(audit.folder / REPORT_FILE))
    if labels is not None and verdicts:
        _paragraph(console, "Then audit again with the labels that the page saves as labels.csv:")
        _line(console, labels)
    elif labels is not None:
        _paragraph(
            console, f"Write true rewards into the column `label` of {FLAGGED_FILE}, then audit again with them:"
        )
        _line(console, label_command(summary, str(audit.folder / FLAGGED_FILE)))
    if following is not None and "--labels" not in following["command"]:
        _paragraph(console, f"{following['when']}:")
        _line(console, following["command"])


_FILES = {
    REPORT_FILE: "the page",
    FLAGGED_FILE: "rewards that look wrong, for a spreadsheet",
    FILTERED_FILE: "the rollouts that remain, with new rewards",
    SCORES_FILE: "every rollout with what was found",
    SUMMARY_FILE: "every number printed here",
}


def _show_files(console: Console, audit: AuditResults) -> None:
    _heading(console, "Files")
    _line(console, f"{audit.folder}/", indent=2)
    table = _table()
    empty = () if audit.summary["counts"]["flagged"] else (FLAGGED_FILE,)
    for name, holds in _FILES.items():
        if (audit.folder / name).is_file() and name not in empty:
            table.add_row(Text(name), Text(holds))
    _print_table(console, table, indent=4)
    remaining = filtered(summary=audit.summary)
    if remaining:
        _paragraph(console, remaining)


def _details(summary: Mapping[str, Any]) -> Iterator[str]:
    """What was read and what else was found: only what there is to say."""
    counts, labels = summary["counts"], summary["labels"]
    yield from _left_out(summary)
    yield f"{counted(counts['rows'], 'rollout')} in {counted(counts['groups'], 'group')}. {grouping_words(summary)}"
    yield from sizes_lines(summary)
    yield from grouping_remarks(summary)
    if counts["unscored"]:
        yield f"{counted(counts['unscored'], 'rollout has', 'rollouts have')} no reward."
    if labels["files"]:
        known = counted(labels["labelled"], "reward is known to be true", "rewards are known to be true")
        told = f"{known}, from {', '.join(labels['files'])}."
        without = labels["without_label"]
        yield f"{told} {counted(without, 'row there has', 'rows there have')} no label." if without else told
    changes = {"replaced": "replaced by other responses", "left_out": "left out", "zero_weighted": "given no weight"}
    changed = [f"{counts[key]:,} would be {what}" for key, what in changes.items() if counts[key]]
    if changed:
        yield f"In a training with this curator {', '.join(changed)}."
    spread = trained_on(summary)
    if spread:
        yield spread
    by_spelling = judged_by_spelling(summary)
    if by_spelling:
        yield by_spelling
    agreed = refused(summary)
    if agreed:
        yield f"{agreed} {_refused_examples(summary)}"
    learnt = new_prompts(summary)
    if learnt.level != "unmeasured":
        yield f"{learnt.headline} {learnt.text}"
    if "note" in summary["hidden"] and finding(summary).level != "unjudged":
        yield summary["hidden"]["note"]
    if summary["redacted"]:
        yield "No prompt, response or answer was written (--redact)."


def _left_out(summary: Mapping[str, Any]) -> Iterator[str]:
    """What of the input is not in the audit, and why."""
    skipped, repeated = summary["skipped"], summary["repeated"]
    for entry in skipped[:_NAMED]:
        name = f"{entry['field']}: " if entry["field"] else ""
        yield f"Skipped: {row_name(Path(entry['file']), entry['line'])}: {name}{entry['reason']}"
    if len(skipped) > _NAMED:
        yield f"{len(skipped):,} rows were skipped in all; {SUMMARY_FILE} lists them."
    for entry in repeated[:_NAMED]:
        yield f"Left out: {entry['file']} holds the rollouts of {entry['same_as']} again."
    if len(repeated) > _NAMED:
        yield f"{len(repeated):,} files were left out in all; {SUMMARY_FILE} lists them."
    without_answer = sum(entry.get("without_answer") or 0 for entry in summary["hidden"]["files"])
    if without_answer:
        responses = counted(summary["counts"]["rows"], "response")
        yield (
            f"No final answer in {without_answer:,} of {responses}: for these the hidden "
            "state before the end was read instead (hidden_position 'predicting')."
        )


def _refused_examples(summary: Mapping[str, Any]) -> str:
    listed = summary["prompts"]["listed"][:_NAMED]
    groups = [
        f"group {prompt['group']}" + ("" if prompt["answer"] is None else f" (answer {quote(prompt['answer'], 40)})")
        for prompt in listed
    ]
    return f"Look at {', '.join(groups)} on the page."


# --- bounds on the verifier's error rates, for a job that is to fail where they are exceeded --------------------------
