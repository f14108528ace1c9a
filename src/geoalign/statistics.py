"""Intervals, paired differences, rankings and curves in numpy and scipy. NaN is a missing value throughout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from math import comb
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr

from geoalign.errors import InputError
from geoalign.intervals import Interval as Interval
from geoalign.intervals import clustered_proportion as clustered_proportion
from geoalign.intervals import mean_interval as mean_interval
from geoalign.intervals import same_shares, t_quantile
from geoalign.intervals import wilson_interval as wilson_interval

# Two values give a t interval in name only: its factor is 12.7, and their spread says next to nothing.
MIN_SEEDS = 3
_LEVEL = 0.95
# A spread below this share of the mean is rounding.
_ROUNDING = 1e-12
# An estimate that is not known.
UNKNOWN = Interval(math.nan, math.nan, math.nan)


def without_nan(values: ArrayLike) -> NDArray[np.float64]:
    numbers = np.asarray(values, dtype=np.float64)
    return numbers[~np.isnan(numbers)]


def mean(values: ArrayLike) -> float:
    numbers = without_nan(values)
    return float(numbers.mean()) if len(numbers) else math.nan


# --- over seeds -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairedDifference:
    """First minus second, over the `pairs` of seeds that both have (`left_out`: seeds on one side only): the mean
    with its t interval, and two-sided p of Student's paired t test; NaN where undefined."""

    interval: Interval
    p: float
    pairs: int
    left_out: int

    @property
    def defined(self) -> bool:
        return not math.isnan(self.interval.low)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies wholly on one side of zero; False where it is undefined."""
        return self.interval.low > 0 or self.interval.high < 0


def paired_difference(first: Mapping[int, float], second: Mapping[int, float]) -> PairedDifference:
    """First minus second, paired by seed; a NaN counts as missing.

    With fewer than `MIN_SEEDS` pairs there is neither interval nor p. Differences that are all zero give 0 to 0 and
    p = 1; all equal but not zero they show no spread to judge by: interval and p are undefined.
    """
    mine = {seed for seed, value in first.items() if not math.isnan(value)}
    theirs = {seed for seed, value in second.items() if not math.isnan(value)}
    differences = np.array([first[seed] - second[seed] for seed in sorted(mine & theirs)], dtype=np.float64)
    pairs = len(differences)
    left_out = len(mine ^ theirs)
    middle = mean(differences)
    undefined = PairedDifference(Interval(middle, math.nan, math.nan), math.nan, pairs, left_out)
    if pairs < MIN_SEEDS:
        return undefined
    if not differences.any():
        return PairedDifference(Interval(0.0, 0.0, 0.0), 1.0, pairs, left_out)
    error = float(differences.std(ddof=1)) / math.sqrt(pairs)
    if error <= _ROUNDING * abs(middle):
        return undefined
    p = 2 * float(stdtr(pairs - 1, -abs(middle) / error))
    return PairedDifference(mean_interval(differences), p, pairs, left_out)


def seed_interval(values: ArrayLike) -> Interval:
    """The mean over seeds with Student's t interval; fewer than `MIN_SEEDS` values give NaN bounds."""
    interval = mean_interval(np.asarray(values, dtype=np.float64))
    return interval if len(without_nan(values)) >= MIN_SEEDS else Interval(interval.estimate, math.nan, math.nan)


def spread(values: ArrayLike) -> float:
    """Standard deviation over seeds (ddof 1); NaN with fewer than two values."""
    numbers = without_nan(values)
    return float(numbers.std(ddof=1)) if len(numbers) > 1 else math.nan


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's step-down adjusted p-values (1979): they keep the chance of any false finding below the level.

    With m values sorted upwards, adjusted p_(i) = max over j <= i of min(1, (m - j + 1) p_(j)). A NaN is a comparison
    without a test: it stays NaN and does not count in m.
    """
    values = np.asarray(p_values, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(values))
    adjusted = np.full(len(values), np.nan)
    order = tested[np.argsort(values[tested], kind="stable")]
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(np.arange(len(order), 0, -1) * values[order]))
    return adjusted


def share_interval(parts: ArrayLike, wholes: ArrayLike) -> Interval:
    """mean(parts) / mean(wholes) over paired values, with Fieller's interval (1954).

    All shares r for which mean(parts - r wholes) is not distinguishable from zero by Student's t: the roots of
    a r^2 - 2 b r + c = 0 with q = t^2 / n, a = my^2 - q syy, b = mx my - q sxy, c = mx^2 - q sxx. NaN bounds where the
    mean of the wholes is not itself distinguishable from zero (a <= 0), and with fewer than three pairs. Pairs with a
    NaN are left out.
    """
    pairs = np.stack([np.asarray(parts, dtype=np.float64), np.asarray(wholes, dtype=np.float64)])
    x, y = pairs[:, ~np.isnan(pairs).any(axis=0)]
    if not len(x) or y.mean() == 0:
        return UNKNOWN
    estimate = float(x.mean() / y.mean())
    if len(x) < MIN_SEEDS:
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


def proportion_over_groups(right: ArrayLike, total: ArrayLike) -> tuple[Interval, Literal["wilson", "clustered"]]:
    """The share of right cases with the 95% interval that takes groups, not cases, as independent; and how it was made.

    This is the interval of every accuracy: groups are problems, cases the responses to each. All NaN without groups.

    - One case in each group: Wilson's.
    - Several: `clustered_proportion`, but Wilson's where every group has the same share, as a single group does.

    Args:
        right: [G] right cases of each group.
        total: [G] cases of each group, positive.
    """
    rights = np.asarray(right, dtype=np.float64)
    totals = np.asarray(total, dtype=np.float64)
    groups = len(totals)
    if groups == 0:
        return UNKNOWN, "wilson"
    if same_shares(rights, totals) or bool(np.all(totals == 1)):
        return wilson_interval(float(rights.sum()) * groups / float(totals.sum()), groups), "wilson"
    return clustered_proportion(rights, totals), "clustered"


# --- rankings ---------------------------------------------------------------------------------------------------------


def auroc(scores: ArrayLike, positives: ArrayLike) -> float:
    """Chance that a marked item scores higher than an unmarked one, ties counting one half; NaN without either.

    Mann-Whitney: U = (sum of the midranks of the marked) - P (P + 1) / 2, divided by P N.
    """
    values, marked = _scored(scores, positives)
    number = int(marked.sum())
    others = int((~marked).sum())
    if number == 0 or others == 0:
        return math.nan
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    rank_sum = float((counts.cumsum() - (counts - 1) / 2)[place][marked].sum())
    return (rank_sum - number * (number + 1) / 2) / (number * others)


def average_precision(scores: ArrayLike, positives: ArrayLike) -> float:
    """Area under the precision-recall curve as a step function: sum over thresholds of (gain in recall) x precision.

    Items of equal score enter together, so their order cannot matter. NaN where no marked item has a score.
    """
    values, marked = _scored(scores, positives)
    number = int(marked.sum())
    if number == 0:
        return math.nan
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    last_of_tie = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)
    hits = np.cumsum(marked[order])[last_of_tie]
    return float((np.diff(hits, prepend=0) / number * hits / (last_of_tie + 1)).sum())


def _scored(scores: ArrayLike, positives: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values = np.asarray(scores, dtype=np.float64)
    return without_nan(values), np.asarray(positives)[~np.isnan(values)].astype(np.bool_)


# --- curves -----------------------------------------------------------------------------------------------------------


def oscillation(values: ArrayLike, steps: ArrayLike | None = None) -> float:
    """Standard deviation of a curve around the straight line through each point's neighbours, in units of the curve.

    The estimator of Gasser, Sroka and Jennen-Steinmetz (1986): e_i = a x_{i-1} + b x_{i+1} - x_i, with a and b the
    linear interpolation weights, and s^2 = mean of e_i^2 / (a^2 + b^2 + 1). A steady rise or fall gives 0; independent
    noise around it that noise's standard deviation, an evaluation's own sampling error included. NaN with fewer than
    three points.
    """
    every = np.asarray(values, dtype=np.float64)
    at = np.arange(len(every)) if steps is None else np.asarray(steps)
    at = at[~np.isnan(every)].astype(np.float64)
    curve = without_nan(every)
    if len(curve) < 3:
        return math.nan
    before = curve[:-2]
    point = curve[1:-1]
    after = curve[2:]
    a = (at[2:] - at[1:-1]) / (at[2:] - at[:-2])
    b = 1 - a
    residual = a * before + b * after - point
    return float(np.sqrt(np.mean(residual**2 / (a**2 + b**2 + 1))))


def largest_drop(values: ArrayLike) -> float:
    """The deepest fall below the best value so far: max over t of (max up to t) - x_t; 0 where a curve never falls."""
    curve = without_nan(values)
    return float(np.max(np.maximum.accumulate(curve) - curve)) if len(curve) else math.nan


def ema(values: ArrayLike, keep: float = 0.6) -> NDArray[np.float64]:
    """Exponential moving average as in the paper's curves: s_t = keep s_{t-1} + (1 - keep) x_t, s_0 = x_0.

    A NaN is a missing point: the average passes over it and stays as it was; it is NaN before the first number.
    """
    series = np.asarray(values, dtype=np.float64)
    smoothed = np.full_like(series, np.nan)
    state = np.nan
    for at, value in enumerate(series):
        if not np.isnan(value):
            state = value if np.isnan(state) else keep * state + (1 - keep) * value
        smoothed[at] = state
    return smoothed


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k), the unbiased estimate from n = `samples` answers of which c = `correct` are right.

    Chen et al. 2021 (arXiv 2107.03374), Eq. 1. In whole numbers and divided once: exact to the last bit.
    """
    if not 1 <= k <= samples:
        raise InputError(f"k: expected 1 to {samples} (samples), got {k}")
    if not 0 <= correct <= samples:
        raise InputError(f"correct: expected 0 to {samples} (samples), got {correct}")
    draws = comb(samples, k)
    return (draws - comb(samples - correct, k)) / draws


def powers_of_two(largest: int) -> list[int]:
    return [2**power for power in range(largest.bit_length()) if 2**power <= largest]


def pair_counts(rewards: Float[np.ndarray, " b"], groups: Int[np.ndarray, " b"]) -> Int[np.ndarray, " b"]:
    """[B] for each row the rows of its group with a different finite reward: the pairs it is in (Eq. 3, all pairs)."""
    rewarded = ~np.isnan(rewards)
    counts = np.zeros(len(rewards), dtype=np.int64)
    if not rewarded.any():
        return counts
    _, group = np.unique(groups[rewarded], return_inverse=True)
    _, level = np.unique(rewards[rewarded], return_inverse=True)
    _, cell, sizes = np.unique(np.stack([group, level]), axis=1, return_inverse=True, return_counts=True)
    counts[rewarded] = np.bincount(group)[group] - sizes[cell.reshape(-1)]
    return counts
