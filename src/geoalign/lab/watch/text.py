"""What a terminal is sent: sparklines and numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from datetime import timedelta

from geoalign.lab.terminal import shows

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII = "_.-:=+*#"


def sparkline(values: Sequence[float], width: int, encoding: str = "utf-8") -> str:
    """A row of at most `width` bars from the lowest value to the highest; means where there are more values than bars.

    Values that are all the same are shown half high; no values or no width: an empty text.
    """
    if not values or width < 1:
        return ""
    bars = min(width, len(values))
    edges = [round(number * len(values) / bars) for number in range(bars + 1)]
    means = [sum(values[low:high]) / (high - low) for low, high in itertools.pairwise(edges)]
    lowest, highest = min(means), max(means)
    levels = _BLOCKS if all(shows(block, encoding) for block in _BLOCKS) else _ASCII
    top = len(levels) - 1
    if not 0 < highest - lowest < math.inf:
        return levels[top // 2] * bars
    return "".join(levels[round(top * (mean - lowest) / (highest - lowest))] for mean in means)


def number(value: float | None) -> str:
    """Three significant digits; a dash where there is none."""
    if value is None:
        return "-"
    if value and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.2e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def count(value: float) -> str:
    """A whole number in full, unless it is too large to be one."""
    return f"{value:,.0f}" if abs(value) < 1e12 else number(value)


def percent(value: float) -> str:
    """A share with one decimal."""
    return f"{value:.1%}" if abs(value) < 100 else number(value)


def span(seconds: float) -> str:
    """A length of time: 0.25 s, 12 s, 3 min, 2:05:00 h."""
    if seconds < 10:
        return f"{max(0.0, seconds):.2g} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    # More than a few years is no estimate but a broken number.
    return f"{timedelta(seconds=round(seconds))} h" if seconds < 1e9 else "years"
