"""What a paired design can detect, and what share of a whole was recovered."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.stats import nct
from scipy.stats import t as student

from geoalign.errors import InputError
from geoalign.method.intervals import Interval


def smallest_detectable(sd: float, pairs: int, *, power: float = 0.8, level: float = 0.95) -> float:
    """The smallest mean difference that a two-sided paired t test finds with this probability.

    d sd / sqrt(n) with the d that solves P(T > c) = power for T noncentral t with n - 1 degrees of freedom and
    noncentrality d, and c the test's critical value. Findings in the wrong direction do not count.

    Args:
        sd: standard deviation of the paired differences (ddof 1).
        pairs: paired seeds.

    Returns:
        A difference in the units of `sd`; 0 where `sd` is 0, NaN where it is NaN or there are fewer than two pairs.

    Raises:
        InputError: a power outside [0.5, 1), a level outside (0, 1) or a negative `sd`.
    """
    if not 0.5 <= power < 1:
        raise InputError(f"power: expected a number in [0.5, 1), got {power}")
    if not 0 < level < 1:
        raise InputError(f"level: expected a number in (0, 1), got {level}")
    if sd < 0:
        raise InputError(f"sd: expected a number >= 0, got {sd}")
    if pairs < 2 or math.isnan(sd):
        return math.nan
    critical = float(student.ppf((1 + level) / 2, pairs - 1))
    high = critical + 1.0
    while float(nct.sf(critical, pairs - 1, high)) < power:
        high *= 2
    shift = float(brentq(lambda d: float(nct.sf(critical, pairs - 1, d)) - power, 0.0, high))
    return shift * sd / math.sqrt(pairs)


def share_interval(parts: ArrayLike, wholes: ArrayLike, *, level: float = 0.95) -> Interval:
    """mean(parts) / mean(wholes) over paired values, with Fieller's interval (1954).

    All shares r for which mean(parts - r wholes) is not distinguishable from zero by Student's t: the roots of
    a r^2 - 2 b r + c = 0 with q = t^2 / n, a = my^2 - q syy, b = mx my - q sxy, c = mx^2 - q sxx. Bounded only where
    the mean of the wholes is itself distinguishable from zero (a > 0).

    Args:
        parts, wholes: [n], what was recovered and what there was to recover, of the same seeds.

    Returns:
        The share; NaN bounds with fewer than three pairs or where the interval is unbounded.

    Raises:
        InputError: shapes differ or are not one-dimensional.
    """
    x, y = np.asarray(parts, dtype=np.float64), np.asarray(wholes, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape:
        raise InputError(f"wholes: expected one dimension and the shape of parts {x.shape}, got {y.shape}")
    if not len(x) or y.mean() == 0:
        return Interval(math.nan, math.nan, math.nan)
    estimate = float(x.mean() / y.mean())
    if len(x) < 3:
        return Interval(estimate, math.nan, math.nan)
    covariance = np.cov(x, y)
    q = float(student.ppf((1 + level) / 2, len(x) - 1)) ** 2 / len(x)
    a = y.mean() ** 2 - q * covariance[1, 1]
    b = x.mean() * y.mean() - q * covariance[0, 1]
    c = x.mean() ** 2 - q * covariance[0, 0]
    if a <= 0:
        return Interval(estimate, math.nan, math.nan)
    half = math.sqrt(max(0.0, b * b - a * c)) / a
    return Interval(estimate, float(b / a - half), float(b / a + half))
