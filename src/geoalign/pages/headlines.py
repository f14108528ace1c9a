"""Whether a projector's accuracy on new groups is above chance, as a headline says it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from geoalign.statistics import Interval

CHANCE = 0.5


@dataclass(frozen=True)
class Verdict:
    """One of "yes", "no", "against", "faded", "unknown", in a headline; the numbers in words; the steps behind them."""

    level: str
    headline: str
    text: str
    steps: int


HEADLINES = {
    "yes": "Yes: there was a consensus to trust.",
    "no": "No: chance lies inside the interval, so the data show no consensus to trust.",
    "against": "No: accuracy on new groups was below chance. What the projector learnt misled it on new prompts.",
    "faded": "Only in part: there was a consensus over the run, but its last quarter shows none beyond chance.",
    "unknown": "Unknown: a single measurement without an interval.",
}


def level_of(interval: Interval, chance: float) -> str:
    """A verdict's level by where chance lies: "yes" below the interval, "against" above it, "no" in it."""
    if math.isnan(interval.low) or math.isnan(interval.high):
        return "unknown"
    if interval.low > chance:
        return "yes"
    return "against" if interval.high < chance else "no"
