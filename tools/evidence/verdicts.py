"""The verdicts of the plans on harm and on checks, by the rules that were written before the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from geoalign.statistics import Interval, mean_interval
from tools.evidence.comparisons import RIVALS
from tools.evidence.runs import Setting

# `denoise` does no harm at a level if the whole interval of its gain over GRPO lies above this.
MOST_HARM = -0.02
# A run of the mended `denoise` fails if it ends further below GRPO's run of the same seed.
FARTHEST_BELOW = 0.1
# The least share of what wrong rewards cost that `appeals` has to recover, by the lower end of its interval.
LEAST_RECOVERED = 0.8
# The least share of the gain of `denoise_modelled` that `denoise` has to keep.
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


def share_kept(setting: Setting, arm: str = "denoise") -> float | None:
    """The mean gain of an arm as a share of that of `denoise_modelled`; None where the latter is not certain."""
    without_rule = gain(setting, "denoise_modelled")
    if not without_rule.low > 0:
        return None
    return gain(setting, arm).estimate / without_rule.estimate


def unharmed(settings: Sequence[Setting], arm: str = "denoise") -> Verdict:
    """At how many levels the interval of an arm minus GRPO lies above `MOST_HARM`."""
    passed = sum(gain(setting, arm).low > MOST_HARM for setting in settings)
    return Verdict(passed, len(settings))


def gains_by_seed(setting: Setting, arm: str = "denoise") -> list[float]:
    """What each run of an arm gains over GRPO's run of the same seed."""
    of_grpo = setting.level.scores("grpo")
    of_arm = setting.level.scores(arm)
    return [of_arm[seed] - of_grpo[seed] for seed in sorted(of_grpo.keys() & of_arm.keys())]


def difference(setting: Setting, other: Setting, arm: str = "denoise") -> Interval:
    """An arm's scores at one setting minus those of the same arm and seeds at another one, with seeds as units."""
    scores = setting.level.scores(arm)
    of_other = other.level.scores(arm)
    shared = sorted(scores.keys() & of_other.keys())
    return mean_interval(np.array([scores[seed] - of_other[seed] for seed in shared]))


def not_far_below(settings: Sequence[Setting], arm: str = "denoise") -> Verdict:
    """How many runs of an arm end at most `FARTHEST_BELOW` below GRPO's run of the same seed."""
    gains = [gain for setting in settings for gain in gains_by_seed(setting, arm)]
    return Verdict(sum(gain >= -FARTHEST_BELOW for gain in gains), len(gains))


def not_below_on_average(settings: Sequence[Setting], arm: str = "denoise") -> Verdict:
    """At how many levels the mean of an arm minus GRPO lies above `MOST_HARM`."""
    passed = sum(gain(setting, arm).estimate > MOST_HARM for setting in settings)
    return Verdict(passed, len(settings))


def recovered(setting: Setting, arm: str) -> Verdict:
    """Whether an arm gains over GRPO with an interval above 0, and surely recovers `LEAST_RECOVERED` of the loss."""
    passed = (gain(setting, arm).low > 0) + (setting.level.share(arm, "clean").low > LEAST_RECOVERED)
    return Verdict(passed, 2)


def as_grpo(settings: Sequence[Setting]) -> Verdict:
    """How many runs of `denoise` end exactly where GRPO's run of the same seed does."""
    gains = [gain for setting in settings for gain in gains_by_seed(setting)]
    return Verdict(sum(gain == 0 for gain in gains), len(gains))


def kept(settings: Sequence[Setting], arm: str = "denoise") -> Verdict:
    """At how many of the levels where `denoise_modelled` gained an arm keeps `LEAST_KEPT` of the gain."""
    shares = [share for setting in settings if (share := share_kept(setting, arm)) is not None]
    return Verdict(sum(share >= LEAST_KEPT for share in shares), len(shares))


def rivals_beaten(setting: Setting) -> Verdict:
    """How many of the four rivals `appeals_13` is above, each with an interval above zero: it leads with all four."""
    beaten = sum(gain(setting, "appeals_13", rival).low > 0 for rival in RIVALS)
    return Verdict(beaten, len(RIVALS))


def rivals_that_lead(setting: Setting) -> Verdict:
    """How many of the four rivals are above `appeals_13`, each with an interval above zero."""
    leading = sum(gain(setting, "appeals_13", rival).high < 0 for rival in RIVALS)
    return Verdict(leading, len(RIVALS))
