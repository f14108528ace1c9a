"""How numbers are written, on pages and on the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING

from geoalign.text import DASH

if TYPE_CHECKING:
    from geoalign.statistics import Interval

# Beyond it a number in full is no longer read but counted.
_LARGEST_IN_FULL = 1e12


def _or_dash(write: Callable[..., str]) -> Callable[..., str]:
    """The same function, which writes a dash where there is no number, and what is rounded to zero without a sign."""

    @wraps(write)
    def written(value: float | None, *args: int, **options: int) -> str:
        if value is None or math.isnan(value):
            return DASH
        text = write(value, *args, **options)
        return text.lstrip("+-") if _is_zero(text) else text

    return written


def _is_zero(text: str) -> bool:
    """Whether what is written has digits, and all of them are zero."""
    digits = [character for character in text if character.isdigit()]
    return bool(digits) and set(digits) == {"0"}


@_or_dash
def number(value: float, digits: int = 3) -> str:
    """A whole number in full, another with `digits` decimals."""
    return whole(value) if float(value).is_integer() else f"{value:,.{digits}f}"


@_or_dash
def short(value: float) -> str:
    """A number with three significant digits; what is 1,000 or more when it is rounded to these, in full."""
    return _three_digits(value, sign="")


@_or_dash
def signed(value: float) -> str:
    """A difference with its sign, otherwise as `short`."""
    return _three_digits(value, sign="+")


def _three_digits(value: float, *, sign: str) -> str:
    rounded = float(f"{value:.3g}")
    # 999.7 is 1,000 and not 1e+03.
    in_full = 1000 <= abs(rounded) < _LARGEST_IN_FULL
    return f"{value:{sign},.0f}" if in_full else f"{value:{sign}.3g}"


@_or_dash
def whole(value: float) -> str:
    return f"{value:,.0f}" if abs(value) < _LARGEST_IN_FULL else f"{value:.3g}"


def counted(count: int, one: str, several: str | None = None) -> str:
    """A number of things: "1 rollout", "2 rollouts", "2 are" for `several="are"`; without it an "s" is added."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


@_or_dash
def decimals(value: float, digits: int = 2) -> str:
    """A number with as many decimals, so that a column of them lines up."""
    return f"{value:,.{digits}f}"


@_or_dash
def signed_decimals(value: float, digits: int = 3) -> str:
    """A difference with its sign and as many decimals."""
    return f"{value:+,.{digits}f}"


@_or_dash
def percent(value: float) -> str:
    """A share as a percentage with one decimal."""
    return f"{value:.1%}" if abs(value) < 100 else short(value)


@_or_dash
def whole_percent(value: float) -> str:
    """A share as a percentage without decimals, for rough ones."""
    return f"{value:.0%}"


@_or_dash
def share(value: float) -> str:
    """A share that was set, such as 0.125 or 0.004, as a percentage with three significant digits."""
    return f"{short(100 * value)}%"


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


@_or_dash
def duration(seconds: float) -> str:
    """A length of time: 0.25 s, 12 s, 3 min, 2:05:00 h, 55:33:20 h. Each unit begins where the one before, rounded,
    would come to it: 119.6 s are 2 min, 3,599.7 s an hour."""
    if seconds < 10:
        return f"{max(0.0, seconds):.2g} s"
    # More than a few years is no estimate but a broken number.
    if seconds >= 1e9:
        return "years"
    if round(seconds) < 120:
        return f"{round(seconds)} s"
    if round(seconds / 60) < 60:
        return f"{round(seconds / 60)} min"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02} h"


def ends(value: Interval | None, write: Callable[[float], str] = short) -> str:
    """The two ends of an interval, each as `write` writes a number."""
    if value is None or math.isnan(value.low) or math.isnan(value.high):
        return DASH
    return f"{write(value.low)} to {write(value.high)}"


def estimate(value: Interval, write: Callable[[float], str] = short) -> str:
    """An estimate with its interval in brackets, where there is one."""
    written = write(value.estimate)
    return written if math.isnan(value.estimate) or math.isnan(value.low) else f"{written} ({ends(value, write)})"


def score_writers(metric: str) -> tuple[Callable[[float | None], str], Callable[[float | None], str]]:
    """How a comparison's scores and their differences are written: accuracies with three decimals, so that they line
    up, rewards of any size with three digits."""
    if metric == "accuracy":
        return partial(decimals, digits=3), signed_decimals
    return short, signed
