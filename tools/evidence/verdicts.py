"""The verdicts of two plans, by the rules that were written before the runs: no harm, and which responses to check."""

from __future__ import annotations

from dataclasses import dataclass

from geoalign.statistics import Interval
from tools.evidence import runs
from tools.evidence.comparisons import RIVALS
from tools.evidence.runs import Setting

# `denoise` does no harm at a level if the whole interval of its gain over GRPO lies above this.
MOST_HARM = -0.02
# The least share of the earlier version's gain that today's has to keep.
LEAST_KEPT = 0.9


@dataclass(frozen=True)
class Verdict:
    """How many of some comparisons came out as the plan asks."""

    passed: int
    of: int

    def __str__(self) -> str:
        return f"{self.passed} of {self.of}"


def gain(setting: Setting, arm: str, against: str = "grpo") -> Interval:
    """What an arm gains over another at a level, with warm starts as units."""
    return setting.level.over_warm_starts(arm, against=against).interval


def share_kept(setting: Setting) -> float | None:
    """Today's mean gain as a share of the earlier version's; None where the earlier one gained nothing for certain."""
    earlier = gain(setting, "denoise_modelled")
    if earlier.low <= 0:
        return None
    return gain(setting, "denoise").estimate / earlier.estimate


def unharmed() -> Verdict:
    """At how many levels the interval of `denoise` minus GRPO lies above `MOST_HARM`."""
    passed = sum(gain(setting, "denoise").low > MOST_HARM for setting in runs.NO_HARM)
    return Verdict(passed, len(runs.NO_HARM))


def kept() -> Verdict:
    """At how many of the levels where the earlier version gained today's keeps `LEAST_KEPT` of the gain."""
    shares = [share for share in map(share_kept, runs.NO_HARM) if share is not None]
    return Verdict(sum(share >= LEAST_KEPT for share in shares), len(shares))


def rivals_beaten(setting: Setting) -> Verdict:
    """How many of the four rivals `appeals_13` is above, each with an interval above zero: it leads with all four."""
    beaten = sum(gain(setting, "appeals_13", rival).low > 0 for rival in RIVALS)
    return Verdict(beaten, len(RIVALS))


def rivals_that_lead(setting: Setting) -> Verdict:
    """How many of the four rivals are above `appeals_13`, each with an interval above zero."""
    leading = sum(gain(setting, "appeals_13", rival).high < 0 for rival in RIVALS)
    return Verdict(leading, len(RIVALS))
