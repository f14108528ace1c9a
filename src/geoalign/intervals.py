"""An estimate with its interval, and the intervals that the library's own metrics have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri, stdtrit


@dataclass(frozen=True)
class Interval:
    """An estimate with the bounds of its confidence interval; NaN where undefined."""

    estimate: float
    low: float
    high: float

    def as_metrics(self, name: str) -> dict[str, float]:
        """The interval as three metrics: `<name>`, `<name>_low` and `<name>_high`."""
        return {name: self.estimate, f"{name}_low": self.low, f"{name}_high": self.high}


def mean_of(values: Sequence[float]) -> float:
    """The mean, NaN without values."""
    return sum(values) / len(values) if values else float("nan")


def t_quantile(level: float, degrees: int) -> float:
    """Where the two-sided interval of this level ends, in standard errors: Student's t."""
    return float(stdtrit(degrees, (1 + level) / 2))


def clustered_proportion(
    right: Float[np.ndarray, " g"], total: Float[np.ndarray, " g"], *, level: float = 0.95
) -> Interval:
    """A proportion over all cases, with an interval that takes groups, not cases, as independent.

    The estimate is p = sum(right) / sum(total); its variance that of a ratio of group totals,
    G / (G - 1) * sum (right_g - p total_g)^2 / (sum total)^2, with Student's t on G - 1 degrees of freedom; the bounds
    are cut to [0, 1]. One group gives bounds of 0 and 1, none gives NaN.

    Where every group has the same share (all right, all wrong, or half of each), there is no spread to judge by, and
    this interval would have no width. Wilson's stands in its place, as if each group had one case: 30 problems that are
    all wrong give 0 to 0.114, however many responses each has. It errs on the wide side. With a single case that
    differs the interval is that of the ratio again, and narrower.

    Args:
        right: [G] right cases of each group.
        total: [G] cases of each group, positive.
    """
    groups = len(total)
    if groups == 0:
        return Interval(float("nan"), float("nan"), float("nan"))
    cases = float(np.sum(total))
    estimate = float(np.sum(right)) / cases
    if groups == 1:
        return Interval(estimate, 0.0, 1.0)
    if same_shares(np.asarray(right), np.asarray(total)):
        return wilson_interval(estimate * groups, groups, level=level)
    residual = np.asarray(right) - estimate * np.asarray(total)
    error = float(np.sqrt(groups / (groups - 1) * np.sum(residual**2))) / cases
    reach = t_quantile(level, groups - 1) * error
    return Interval(estimate, max(0.0, estimate - reach), min(1.0, estimate + reach))


def same_shares(right: Float[np.ndarray, " g"], total: Float[np.ndarray, " g"]) -> bool:
    """Whether the share of right cases is the same in every group."""
    return bool(np.all(right * total[0] == right[0] * total))


def wilson_interval(successes: float, trials: int, *, level: float = 0.95) -> Interval:
    """Wilson's score interval (1927); all NaN without trials.

    With p = successes / n and z the normal quantile of (1 + level) / 2: (2 n p + z^2 +- z sqrt(4 n p (1 - p) + z^2)) /
    (2 (n + z^2)).

    For trials that come in groups (several answers to one problem) it is too narrow: see `clustered_proportion`.
    """
    if trials == 0:
        return Interval(math.nan, math.nan, math.nan)
    estimate = successes / trials
    z = float(ndtri((1 + level) / 2))
    centre = 2 * trials * estimate + z**2
    reach = z * math.sqrt(4 * trials * estimate * (1 - estimate) + z**2)
    twice = 2 * (trials + z**2)
    # Around the estimate even where rounding puts a bound of 0 or 1 beside it.
    low = max(0.0, min((centre - reach) / twice, estimate))
    return Interval(estimate, low, max((centre + reach) / twice, estimate))


def mean_interval(values: Float[np.ndarray, " n"], *, level: float = 0.95) -> Interval:
    """The mean with Student's t interval; one value gives NaN bounds, none gives NaN. NaN values are left out."""
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[~np.isnan(finite)]
    if len(finite) == 0:
        return Interval(float("nan"), float("nan"), float("nan"))
    mean = float(finite.mean())
    if len(finite) == 1:
        return Interval(mean, float("nan"), float("nan"))
    reach = t_quantile(level, len(finite) - 1) * float(finite.std(ddof=1) / np.sqrt(len(finite)))
    return Interval(mean, mean - reach, mean + reach)
