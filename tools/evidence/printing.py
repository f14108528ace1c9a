"""Numbers and tables as the pages print them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from geoalign.statistics import Interval

# Names of numbers in sentences, each with its text.
Named = Iterator[tuple[str, str]]


def signed_number(number: float, digits: int = 3) -> str:
    """`+0.039`, and `-0.000` for a number just below zero; `0.000` without a sign for zero itself."""
    return f"{number:+.{digits}f}" if number else f"{0:.{digits}f}"


def signed(interval: Interval, digits: int = 3) -> str:
    """`+0.039 (-0.036 to +0.113)`; the estimate alone where there is no interval, nothing where it is unknown."""
    if math.isnan(interval.estimate):
        return ""
    estimate = signed_number(interval.estimate, digits)
    if math.isnan(interval.low):
        return estimate
    low = signed_number(interval.low, digits)
    high = signed_number(interval.high, digits)
    return f"{estimate} ({low} to {high})"


def plain(number: float, digits: int) -> str:
    """A number without a sign, or nothing where it is unknown."""
    return "" if math.isnan(number) else f"{number:.{digits}f}"


def interval(found: Interval, digits: int = 2) -> str:
    """`0.57 (0.55 to 0.59)`."""
    return f"{found.estimate:.{digits}f} ({found.low:.{digits}f} to {found.high:.{digits}f})"


def percent(share: Interval) -> str:
    """`93% (83% to 106%)`; the estimate alone where there is no interval."""
    estimate = f"{share.estimate:.0%}"
    if math.isnan(share.low):
        return estimate
    return f"{estimate} ({share.low:.0%} to {share.high:.0%})"


def probability(p: float) -> str:
    """`0.043`, `<0.001`; nothing where it is unknown."""
    if math.isnan(p):
        return ""
    if p < 0.001:
        return "<0.001"
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    names = list(heads)
    lines = [_line(names), "|" + "---|" * len(names) + "\n"]
    lines += [_line(list(row)) for row in rows]
    return "".join(lines)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |\n".replace("|  ", "| ")


def listed(gains: Iterable[float]) -> str:
    """`+0.013, -0.002`."""
    return ", ".join(signed_number(gain, 3) for gain in gains)


def excludes_zero(found: Interval) -> bool:
    """Whether an interval lies on one side of zero."""
    return found.low > 0 or found.high < 0


def bold_if(condition: bool, text: str) -> str:
    """The text, in bold where the condition holds."""
    return f"**{text}**" if condition else text
