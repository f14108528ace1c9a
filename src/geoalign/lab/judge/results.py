"""What came out of a judging: its files and its table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from rich.table import Table
from rich.text import Text

from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.evaluation.responses import ResponseFile
from geoalign.lab.judge.outcome import JudgedPair, Judgment
from geoalign.lab.judge.pairs import MatchedResponses
from geoalign.lab.judge.prompt import as_prompted
from geoalign.lab.judge.summary import JudgeSummary, summarise
from geoalign.lab.terminal import Console
from geoalign.lab.text import decimals, estimate, percent

_RATES = {"win": "A wins", "lose": "B wins", "tie": "tie"}
_SCORES = {"score_a": "score of A", "score_b": "score of B"}
# Shown only where there are any.
_COUNTS = {
    "malformed": "left out: malformed",
    "failed": "left out: failed",
    "contradictions": "ties by contradiction",
    "half_ties": "ties by a tie against a win",
    "unequal_ties": "judged tie, unequal scores",
    "retried_answers": "malformed answers, asked again",
}
_REASONS_SHOWN = 5


@dataclass(frozen=True)
class JudgeResult:
    """The result for each set, in the order of file A, and for all pairs together."""

    sets: dict[str, JudgeSummary]
    overall: JudgeSummary


def result_of(pairs: Sequence[JudgedPair]) -> JudgeResult:
    """Summarises each set, and all pairs as one."""
    names = dict.fromkeys(pair.key[0] for pair in pairs)
    sets = {name: summarise([pair for pair in pairs if pair.key[0] == name]) for name in names}
    return JudgeResult(sets, summarise(pairs))


def judgment_lines(pairs: Sequence[JudgedPair]) -> list[dict[str, Any]]:
    """One line for each judgment, A shown first, then B shown first."""
    return [_line(pair, judgment) for pair in pairs for judgment in pair.judgments]


def _line(pair: JudgedPair, judgment: Judgment) -> dict[str, Any]:
    name, prompt, sample = pair.key
    return {
        "set": name,
        "id": prompt,
        "sample": sample,
        "first": judgment.first,
        "status": judgment.answer.status,
        "winner": judgment.winner,
        "score_a": judgment.score("a"),
        "score_b": judgment.score("b"),
        "pair_status": pair.status,
        "pair_winner": pair.winner,
        "attempts": judgment.answer.attempts,
        "reason": judgment.answer.reason,
        "answer": judgment.answer.text,
    }


def result_json(a: ResponseFile, b: ResponseFile, matched: MatchedResponses, result: JudgeResult) -> dict[str, Any]:
    """What `judge.json` holds besides the settings."""
    sets = {name: summary_json(rates) for name, rates in result.sets.items()}
    return {
        "a": _file_json(a),
        "b": _file_json(b),
        "sets": sets,
        "overall": summary_json(result.overall),
        # The paper's "Mean" column: every set counts alike, however many pairs it has.
        "mean_of_sets": {
            name: math.fsum(rates[name] for rates in sets.values()) / len(sets) for name in ("score_a", "score_b")
        },
        "unmatched": {"only_a": [list(key) for key in matched.only_a], "only_b": [list(key) for key in matched.only_b]},
    }


def summary_json(summary: JudgeSummary) -> dict[str, Any]:
    """The fields of a summary; an interval becomes its estimate under its own name, with `_low` and `_high`."""
    values: dict[str, Any] = {}
    for item in fields(summary):
        value = getattr(summary, item.name)
        if isinstance(value, Interval):
            values |= {item.name: value.estimate, f"{item.name}_low": value.low, f"{item.name}_high": value.high}
        else:
            values[item.name] = value
    return values


def _file_json(file: ResponseFile) -> dict[str, Any]:
    return {
        "file": str(file.path),
        "responses": len(file.rows),
        "truncated": sum(row.truncated for row in file.rows),
        "empty": sum(not row.response.strip() for row in file.rows),
        "shown_changed": sum(as_prompted(row.response) != row.response for row in file.rows),
    }


def print_result(console: Console, result: JudgeResult, title: str) -> None:
    """Prints a column for each set, one for all together where there are several, and why judgments have no verdict."""
    columns = list(result.sets.items())
    if len(columns) > 1:
        columns.append(("all", result.overall))
    table = Table(title=Text(title), title_justify="left")
    table.add_column("")
    for name, _ in columns:
        table.add_column(Text(name), justify="right", no_wrap=True)
    table.add_row("pairs judged", *(f"{rates.judged} of {rates.pairs}" for _, rates in columns))
    for name, label in _RATES.items():
        table.add_row(label, *(estimate(getattr(rates, name), percent) for _, rates in columns))
    for name, label in _SCORES.items():
        table.add_row(label, *(estimate(getattr(rates, name), partial(decimals, digits=4)) for _, rates in columns))
    table.add_row("first shown wins", *(estimate(rates.first_share, percent) for _, rates in columns))
    for name, label in _COUNTS.items():
        counts = [getattr(rates, name) for _, rates in columns]
        if any(counts):
            table.add_row(label, *map(str, counts))
    console.print(table)
    _print_reasons(console, result.overall.reasons)


def _print_reasons(console: Console, reasons: Mapping[str, int]) -> None:
    lines = [f"{count} judgments: {reason}" for reason, count in list(reasons.items())[:_REASONS_SHOWN]]
    if len(reasons) > _REASONS_SHOWN:
        lines.append(f"and {len(reasons) - _REASONS_SHOWN} further reasons, in judge.json")
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
