"""Intervals and tests: over seeds, several at a time, proportions, shares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from scipy.stats import t as student

from geoalign.method.intervals import Interval, mean_interval, t_quantile

# Two values give a t interval in name only: its factor is 12.7, and their spread says next to nothing.
MIN_SEEDS = 3
_LEVEL = 0.95
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


def paired_difference(first: Mapping[int, float], second: Mapping[int, float]) -> PairedDifference:
    """First minus second, paired by seed; a NaN counts as missing.

    With fewer than `MIN_SEEDS` pairs there is a mean but neither interval nor p. Differences that are all zero (two
    arms that did the same) give the interval 0 to 0 and p = 1. Differences that are all equal but not zero show no
    spread to judge them by: interval and p are undefined rather than of width zero.
    """
    mine = {seed for seed, value in first.items() if not math.isnan(value)}
    theirs = {seed for seed, value in second.items() if not math.isnan(value)}
    differences = np.array([first[seed] - second[seed] for seed in sorted(mine & theirs)], dtype=np.float64)
    pairs, left_out = len(differences), len(mine ^ theirs)
    mean = float(differences.mean()) if pairs else math.nan
    undefined = PairedDifference(Interval(mean, math.nan, math.nan), math.nan, pairs, left_out)
    if pairs < MIN_SEEDS:
        return undefined
    if not differences.any():
        return PairedDifference(Interval(0.0, 0.0, 0.0), 1.0, pairs, left_out)
    error = float(differences.std(ddof=1)) / math.sqrt(pairs)
    if error <= _ROUNDING * abs(mean):
        return undefined
    p = 2 * float(student.sf(abs(mean) / error, pairs - 1))
    return PairedDifference(mean_interval(differences), p, pairs, left_out)


def seed_interval(values: ArrayLike) -> Interval:
    """The mean over seeds with Student's t interval; fewer than `MIN_SEEDS` values give NaN bounds. NaN is left out."""
    numbers = np.asarray(values, dtype=np.float64)
    interval = mean_interval(numbers)
    if int((~np.isnan(numbers)).sum()) < MIN_SEEDS:
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
    """
    values = np.asarray(p_values, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(values))
    adjusted = np.full(len(values), np.nan)
    order = known[np.argsort(values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factors * values[order]))
    return adjusted


def wilson_interval(successes: int, trials: int) -> Interval:
    """Wilson's 95% score interval: stays inside [0, 1] and keeps a width at 0 and at `trials` successes.

    Centre (p + z^2/2n) / (1 + z^2/n), half width z sqrt(p (1 - p)/n + z^2/4n^2) / (1 + z^2/n). For trials that come in
    groups (several answers to one problem) it is too narrow: `clustered_proportion` is meant for those. All NaN without
    trials.
    """
    if trials == 0:
        return Interval(math.nan, math.nan, math.nan)
    z = float(ndtri((1 + _LEVEL) / 2))
    share = successes / trials
    shrink = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / shrink
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / shrink
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half))


def share_interval(parts: ArrayLike, wholes: ArrayLike) -> Interval:
    """mean(parts) / mean(wholes) over paired values, with Fieller's interval (1954).

    All shares r for which mean(parts - r wholes) is not distinguishable from zero by Student's t: the roots of
    a r^2 - 2 b r + c = 0 with q = t^2 / n, a = my^2 - q syy, b = mx my - q sxy, c = mx^2 - q sxx. Bounded only where
    the mean of the wholes is itself distinguishable from zero (a > 0).

    Args:
        parts, wholes: [n], what was recovered and what there was to recover, of the same seeds.

    Returns:
        The share; NaN bounds with fewer than three pairs or where the interval is unbounded.
    """
    x, y = np.asarray(parts, dtype=np.float64), np.asarray(wholes, dtype=np.float64)
    if not len(x) or y.mean() == 0:
        return Interval(math.nan, math.nan, math.nan)
    estimate = float(x.mean() / y.mean())
    if len(x) < 3:
        return Interval(estimate, math.nan, math.nan)
    covariance = np.cov(x, y)
    q = t_quantile(_LEVEL, len(x) - 1) ** 2 / len(x)
    a = y.mean() ** 2 - q * covariance[1, 1]
    b = x.mean() * y.mean() - q * covariance[0, 1]
    c = x.mean() ** 2 - q * covariance[0, 0]
    if a <= 0:
        return Interval(estimate, math.nan, math.nan)
    half = math.sqrt(max(0.0, b * b - a * c)) / a
    return Interval(estimate, float(b / a - half), float(b / a + half))
