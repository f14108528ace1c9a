"""Numbers and tables as the pages on evidence write them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from geoalign.lab.analysis.statistics import Interval


def signed(interval: Interval, digits: int = 3) -> str:
    """`+0.039 (-0.036 to +0.113)`; the estimate alone where there is no interval."""
    if math.isnan(interval.estimate):
        return ""
    estimate, low, high = (signed_number(end, digits) for end in (interval.estimate, interval.low, interval.high))
    if math.isnan(interval.low):
        return estimate
    return f"{estimate} ({low} to {high})"


def signed_number(number: float, digits: int = 3) -> str:
    """`+0.039`; `0.000` without a sign."""
    text = f"{number:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def plain(number: float, digits: int) -> str:
    """A number, or nothing where it is unknown."""
    return "" if math.isnan(number) else f"{number:.{digits}f}"


def probability(p: float) -> str:
    """`0.043`, `<0.001`; nothing where it is unknown."""
    return "" if math.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    heads = list(heads)
    lines = [f"| {' | '.join(line)} |\n" for line in [heads, *(list(row) for row in rows)]]
    return "".join([lines[0], "|" + "---|" * len(heads) + "\n", *lines[1:]]).replace("|  ", "| ")
