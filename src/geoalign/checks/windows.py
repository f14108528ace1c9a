"""Intervals of a verifier's error rates that hold while the policy moves, however often one looks and for all of a run.

In a training rows are drawn at random from each batch and checked. The rates change from batch to batch, since the
policy does, so no interval of one fixed rate holds. Instead checks are collected in windows. Window j = 1, 2, ... is
closed once it has enough of them, and then each of the two rates gets an interval of level

    1 - alpha / (2 j (j + 1)),     alpha = 0.05.

Over both rates and all j these errors sum to alpha. So with a probability of at least 95% every interval of the run
holds, whatever the rates do, and however often one looks or when one stops.

What an interval of a window is about: its rows come from several batches, of which batch b has the rate theta_b among
its rows of the class (wrong rows, or right ones), and m_b of the checked rows of the class. The interval is of the mean
rate over these rows, sum_b m_b theta_b / sum_b m_b.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import betaincinv

from geoalign.intervals import Interval

# The probability that any interval of a run fails.
ALPHA = 0.05


@dataclass(frozen=True)
class WindowCounts:
    """How many of a window's checked rows are of either class, and how many of these the verifier judged wrongly.

    Attributes:
        wrong: rows that are wrong.
        accepted: how many of the wrong rows the verifier accepted.
        right: rows that are right.
        refused: how many of the right rows it refused.
    """

    wrong: int = 0
    accepted: int = 0
    right: int = 0
    refused: int = 0

    @property
    def checks(self) -> int:
        """The number of checked rows."""
        return self.wrong + self.right

    def __add__(self, other: WindowCounts) -> WindowCounts:
        return WindowCounts(
            wrong=self.wrong + other.wrong,
            accepted=self.accepted + other.accepted,
            right=self.right + other.right,
            refused=self.refused + other.refused,
        )


def counted_checks(accepted: Sequence[bool], right: Sequence[bool]) -> WindowCounts:
    """The counts of checked rows.

    Args:
        accepted: C verdicts of the verifier.
        right: C verdicts of the check.
    """
    pairs = list(zip(accepted, right, strict=True))
    return WindowCounts(
        wrong=sum(not is_right for _, is_right in pairs),
        accepted=sum(is_accepted and not is_right for is_accepted, is_right in pairs),
        right=sum(is_right for _, is_right in pairs),
        refused=sum(is_right and not is_accepted for is_accepted, is_right in pairs),
    )


def window_intervals(counts: WindowCounts, number: int) -> tuple[Interval, Interval]:
    """The false positive rate and the false negative rate of a window, with intervals that hold together over a run.

    Args:
        number: j, the windows that were closed so far, with this one.
    """
    level = 1 - ALPHA / (2 * number * (number + 1))
    false_positive = mean_rate_interval(counts.accepted, counts.wrong, level=level)
    false_negative = mean_rate_interval(counts.refused, counts.right, level=level)
    return false_positive, false_negative


def mean_rate_interval(errors: int, trials: int, *, level: float) -> Interval:
    """The share of errors, with an interval of the mean of the trials' rates, which need not be equal.

    It is Clopper and Pearson's, but for its lower end (1 - level) / 2 / trials at one error, and 1 less that at one
    success. Without a trial the estimate is NaN, and the interval 0 to 1.

    Let S be the errors among n independent trials of mean rate p, and B a binomial number with n and p. Rows that are
    drawn without replacement from a batch are such trials, too: their errors are distributed as a sum of independent
    ones (Vatutin and Mikhailov, 1982). S is no more spread than B: P(S >= k) <= P(B >= k) for k >= n p + 1 (Hoeffding,
    1956). An end at k >= 2 errors excludes p only where P(B >= k) < (1 - level) / 2. That is below 1/4 for every level
    above 1/2, and so it occurs only for k >= n p + 1 (Greenberg and Mohri, 2014). For k = 1 it need not, and
    P(S >= 1) <= n p gives the end above. The upper end follows by exchanging errors and successes.
    """
    if trials == 0:
        return Interval(math.nan, 0.0, 1.0)
    low = _lower_end(errors, trials, error=(1 - level) / 2)
    high = 1 - _lower_end(trials - errors, trials, error=(1 - level) / 2)
    return Interval(errors / trials, low, high)


def _lower_end(errors: int, trials: int, *, error: float) -> float:
    """The lower end, which is above the mean rate with at most the probability `error`."""
    if errors == 0:
        return 0.0
    if errors == 1:
        return error / trials
    # The p with P(B >= errors) = error.
    return float(betaincinv(errors, trials - errors + 1, error))
