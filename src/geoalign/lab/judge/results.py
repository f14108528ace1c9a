"""What the judgments of pairs come to: rates, scores, position bias, and what had to be left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from rich.table import Table
from rich.text import Text

from geoalign.lab.analysis.statistics import Interval, clustered_proportion, wilson_interval
from geoalign.lab.evaluation.responses import Key
from geoalign.lab.judge.asking import parse_verdict
from geoalign.lab.text import decimals, estimate


@dataclass(frozen=True)
class Judgment:
    """A pair judged in both orders, a line of `judgments.jsonl`.

    `winner` is the side that won in both orders, otherwise "tie"; "malformed" where an answer was no verdict. Scores
    are means of both orders.
    """

    set: str
    id: str
    sample: int
    winner: Literal["a", "b", "tie", "malformed"]
    score_a: float
    score_b: float
    answers: Sequence[str]


def judgment_of(key: Key, answers: Sequence[str]) -> Judgment:
    """Reads the answer with A shown first and the one with B shown first."""
    a_first, b_first = map(parse_verdict, answers)
    if a_first is None or b_first is None:
        return Judgment(*key, "malformed", 0.0, 0.0, [answer[:10_000] for answer in answers])
    named = (a_first.overall_winner, b_first.overall_winner)
    return Judgment(
        *key,
        winner="a" if named == ("model_a", "model_b") else "b" if named == ("model_b", "model_a") else "tie",
        score_a=(a_first.model_a_score + b_first.model_b_score) / 2,
        score_b=(a_first.model_b_score + b_first.model_a_score) / 2,
        answers=answers,
    )


@dataclass(frozen=True)
class Rates:
    """The result of A against B; a pair without two verdicts is in the counts of malformed or failed ones only."""

    pairs: int
    judged: int
    malformed: int
    failed: int
    win: Interval
    lose: Interval
    tie: Interval
    score_a: Interval
    score_b: Interval


def rates_of(judgments: Sequence[Judgment], pairs: int) -> Rates:
    """The rates over the judged ones of so many pairs, NaN where there is none.

    Intervals: Wilson's for rates where every prompt has one pair; otherwise prompts are independent, pairs are not.
    """
    judged = [one for one in judgments if one.winner != "malformed"]

    def over_prompts(part: str) -> Interval:
        sums: dict[tuple[str, str], np.ndarray] = defaultdict(lambda: np.zeros(2))
        for one in judged:
            sums[one.set, one.id] += getattr(one, part, one.winner == part), 1
        return clustered_proportion(*np.array(list(sums.values())).reshape(-1, 2).T)

    def rate(winner: str) -> Interval:
        if len({(one.set, one.id) for one in judged}) < len(judged):
            return over_prompts(winner)
        return wilson_interval(sum(one.winner == winner for one in judged), len(judged))

    return Rates(
        pairs=pairs,
        judged=len(judged),
        malformed=len(judgments) - len(judged),
        failed=pairs - len(judgments),
        win=rate("a"),
        lose=rate("b"),
        tie=rate("tie"),
        score_a=over_prompts("score_a"),
        score_b=over_prompts("score_b"),
    )


def table_of(sets: Mapping[str, Rates], title: str) -> Table:
    """A column for each set."""
    table = Table("", title=Text(title), title_justify="left")
    for name in sets:
        table.add_column(Text(name), justify="right", no_wrap=True)
    for name in (item.name for item in fields(Rates)):
        values = [getattr(rates, name) for rates in sets.values()]
        cells = [estimate(it, lambda x: decimals(x, 4)) if isinstance(it, Interval) else str(it) for it in values]
        table.add_row(name.replace("_", " "), *cells)
    return table
