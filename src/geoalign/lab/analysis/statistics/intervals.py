"""Intervals and tests: means and differences over seeds, several comparisons at a time, a plain proportion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from scipy.stats import t as student

from geoalign.errors import InputError
from geoalign.method.intervals import Interval, mean_interval

# Two values give a t interval in name only: its factor is 12.7, and their spread says next to nothing.
MIN_SEEDS = 3
# A spread below this share of the mean is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class PairedDifference:
    """First minus second, over the seeds that both have.

    Attributes:
        interval: mean difference with its t interval; the bounds are NaN where undefined.
        p: two-sided p of Student's paired t test; NaN where undefined.
        pairs: seeds with a value on both sides.
        left_out: seeds with a value on one side only.
    """

    interval: Interval
    p: float
    pairs: int
    left_out: int

    @property
    def defined(self) -> bool:
        """Whether there is an interval."""
        return not math.isnan(self.interval.low)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies wholly on one side of zero; False where it is undefined."""
        return self.interval.low > 0 or self.interval.high < 0


def paired_difference(
    first: Mapping[int, float], second: Mapping[int, float], *, level: float = 0.95, least: int = MIN_SEEDS
) -> PairedDifference:
    """First minus second, paired by seed; a NaN counts as missing.

    With fewer than `least` pairs there is a mean but neither interval nor p. Differences that are all zero (two arms
    that did the same) give the interval 0 to 0 and p = 1. Differences that are all equal but not zero show no spread to
    judge them by: interval and p are undefined rather than of width zero.

    Raises:
        InputError: a level outside (0, 1), or `least` below 2.
    """
    if not 0 < level < 1:
        raise InputError(f"level: expected a number in (0, 1), got {level}")
    if least < 2:
        raise InputError(f"least: expected at least 2 pairs, got {least}")
    mine = {seed for seed, value in first.items() if not math.isnan(value)}
    theirs = {seed for seed, value in second.items() if not math.isnan(value)}
    differences = np.array([first[seed] - second[seed] for seed in sorted(mine & theirs)], dtype=np.float64)
    pairs, left_out = len(differences), len(mine ^ theirs)
    mean = float(differences.mean()) if pairs else math.nan
    undefined = PairedDifference(Interval(mean, math.nan, math.nan), math.nan, pairs, left_out)
    if pairs < least:
        return undefined
    if not differences.any():
        return PairedDifference(Interval(0.0, 0.0, 0.0), 1.0, pairs, left_out)
    error = float(differences.std(ddof=1)) / math.sqrt(pairs)
    if error <= _ROUNDING * abs(mean):
        return undefined
    p = 2 * float(student.sf(abs(mean) / error, pairs - 1))
    return PairedDifference(mean_interval(differences, level=level), p, pairs, left_out)


def seed_interval(values: ArrayLike, *, level: float = 0.95, least: int = MIN_SEEDS) -> Interval:
    """The mean over seeds with Student's t interval; fewer than `least` values give NaN bounds. NaN is left out."""
    numbers = np.asarray(values, dtype=np.float64)
    interval = mean_interval(numbers, level=level)
    if int((~np.isnan(numbers)).sum()) < least:
        return Interval(interval.estimate, math.nan, math.nan)
    return interval


def spread(values: ArrayLike) -> float:
    """Standard deviation over seeds (ddof 1); NaN with fewer than two values. NaN is left out."""
    numbers = np.asarray(values, dtype=np.float64)
    numbers = numbers[~np.isnan(numbers)]
    return float(numbers.std(ddof=1)) if len(numbers) > 1 else math.nan


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's step-down adjusted p-values (1979): they keep the chance of any false finding below the level.

    With m values sorted upwards, adjusted p_(i) = max over j <= i of min(1, (m - j + 1) p_(j)).

    Args:
        p_values: [n] in [0, 1]. A NaN is a comparison without a test: it stays NaN and does not count in m.

    Returns:
        [n] adjusted values, in the order given.

    Raises:
        InputError: more than one dimension, or a value outside [0, 1].
    """
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1:
        raise InputError(f"p_values: expected one dimension, got shape {values.shape}")
    known = np.flatnonzero(~np.isnan(values))
    wrong = [float(value) for value in values[known] if not 0 <= value <= 1]
    if wrong:
        raise InputError(f"p_values: expected numbers in [0, 1], got {wrong[0]}")
    adjusted = np.full(len(values), np.nan)
    order = known[np.argsort(values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factors * values[order]))
    return adjusted


def wilson_interval(successes: int, trials: int, *, level: float = 0.95) -> Interval:
    """Wilson's score interval: stays inside [0, 1] and keeps a width at 0 and at `trials` successes.

    Centre (p + z^2/2n) / (1 + z^2/n), half width z sqrt(p (1 - p)/n + z^2/4n^2) / (1 + z^2/n). For trials that come in
    groups (several answers to one problem) it is too narrow: `clustered_proportion` is meant for those.

    Returns:
        The interval; all NaN without trials.

    Raises:
        InputError: successes outside 0..trials, or a level outside (0, 1).
    """
    if not 0 < level < 1:
        raise InputError(f"level: expected a number in (0, 1), got {level}")
    if not 0 <= successes <= trials:
        raise InputError(f"successes: expected a number in 0..{trials} (trials), got {successes}")
    if trials == 0:
        return Interval(math.nan, math.nan, math.nan)
    z = float(ndtri((1 + level) / 2))
    share = successes / trials
    shrink = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / shrink
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / shrink
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half))
