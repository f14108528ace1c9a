"""How numbers are written, on pages and on the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import TYPE_CHECKING

from geoalign.text import DASH

if TYPE_CHECKING:
    from geoalign.lab.analysis.statistics import Interval

# Beyond it a number in full is no longer read but counted.
_LARGEST_IN_FULL = 1e12


def _or_dash(write: Callable[..., str]) -> Callable[..., str]:
    """The same function, which writes a dash where there is no number."""

    @wraps(write)
    def written(value: float | None, *args: int, **options: int) -> str:
        return DASH if value is None or math.isnan(value) else write(value, *args, **options)

    return written


@_or_dash
def number(value: float, digits: int = 3) -> str:
    """A whole number in full, another with `digits` decimals."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.{digits}f}"


@_or_dash
def short(value: float) -> str:
    """A number with three significant digits; from 1,000 on in full."""
    return whole(value) if abs(value) >= 1000 else f"{value:.3g}"


@_or_dash
def signed(value: float) -> str:
    """A difference with its sign and three significant digits."""
    return "0" if value == 0 else f"{value:+.3g}"


@_or_dash
def whole(value: float) -> str:
    return f"{value:,.0f}" if abs(value) < _LARGEST_IN_FULL else f"{value:.3g}"


@_or_dash
def decimals(value: float, digits: int = 2) -> str:
    """A number with as many decimals, so that a column of them lines up."""
    return f"{value:,.{digits}f}"


@_or_dash
def percent(value: float) -> str:
    """A share as a percentage with one decimal."""
    return f"{value:.1%}" if abs(value) < 100 else short(value)


@_or_dash
def points(value: float) -> str:
    return f"{100 * value:+.1f} points"


@_or_dash
def probability(p: float) -> str:
    """A p-value with two significant digits."""
    return "under 0.0001" if p < 0.0001 else f"{p:.2g}"


@_or_dash
def megabytes(value: float) -> str:
    """Bytes as a signed number of mebibytes."""
    return f"{value / 2**20:+,.0f} MiB"


def duration(seconds: float) -> str:
    """A length of time: 0.25 s, 12 s, 3 min, 2:05:00 h."""
    if seconds < 10:
        return f"{max(0.0, seconds):.2g} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    # More than a few years is no estimate but a broken number.
    return f"{timedelta(seconds=round(seconds))} h" if seconds < 1e9 else "years"


def ends(value: Interval | None, write: Callable[[float], str] = short) -> str:
    """The two ends of an interval, each as `write` writes a number."""
    if value is None or math.isnan(value.low) or math.isnan(value.high):
        return DASH
    return f"{write(value.low)} to {write(value.high)}"


def estimate(value: Interval, write: Callable[[float], str] = short) -> str:
    """An estimate with its interval in brackets, where there is one."""
    written = write(value.estimate)
    return written if math.isnan(value.estimate) or math.isnan(value.low) else f"{written} ({ends(value, write)})"
