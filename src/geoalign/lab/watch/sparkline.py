"""Sparklines: a row of bars in one line of a terminal."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from geoalign.lab.text import shows

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
