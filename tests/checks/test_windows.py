"""Intervals of error rates that drift: by hand, and how often all of a run hold."""

import math

import numpy as np
import pytest
from scipy import stats

from geoalign.checks.windows import WindowCounts, counted_checks, mean_rate_interval, window_intervals


def test_an_interval_by_hand():
    # No error in n: (1 - high)^n = (1 - level) / 2. All are errors: low^n is.
    none = mean_rate_interval(0, 10, level=0.9)
    assert (none.estimate, none.low, none.high) == (0.0, 0.0, pytest.approx(1 - 0.05 ** (1 / 10)))
    every = mean_rate_interval(10, 10, level=0.9)
    assert (every.estimate, every.low, every.high) == (1.0, pytest.approx(0.05 ** (1 / 10)), 1.0)
    # P(B >= 2 | low) = P(B <= 2 | high) = 0.05.
    two = mean_rate_interval(2, 10, level=0.9)
    assert stats.binom.sf(1, 10, two.low) == pytest.approx(0.05)
    assert stats.binom.cdf(2, 10, two.high) == pytest.approx(0.05)


def test_one_error_may_come_from_one_trial_alone():
    """Ten trials of which one errs at the rate 0.05: it errs with this probability, more than ten at 0.005 would."""
    one = mean_rate_interval(1, 10, level=0.9)
    assert one.low == pytest.approx(0.05 / 10)
    assert 1 - mean_rate_interval(9, 10, level=0.9).high == pytest.approx(0.05 / 10)
    assert one.low < stats.binomtest(1, 10).proportion_ci(0.9, method="exact").low


def test_without_a_trial_nothing_is_known():
    nothing = mean_rate_interval(0, 0, level=0.95)
    assert math.isnan(nothing.estimate)
    assert (nothing.low, nothing.high) == (0.0, 1.0)


def test_checks_are_counted_by_class():
    accepted = [True, True, False, False, True]
    right = [True, False, False, True, False]
    assert counted_checks(accepted, right) == WindowCounts(wrong=3, accepted=2, right=2, refused=1)


def test_the_errors_of_all_windows_sum_to_one_in_twenty():
    # Of a window with no error among n the upper end tells the level: 2 (1 - high)^n is the error of one rate.
    errors = []
    for number in range(1, 2001):
        positive, negative = window_intervals(WindowCounts(wrong=5, right=5), number)
        errors += [2 * (1 - each.high) ** 5 for each in (positive, negative)]
    assert errors[0] == pytest.approx(0.05 / 4)
    assert 0.049 < sum(errors) < 0.05


def drifting_run(seed, windows=12, batches=10, checks=10):
    """Whether every interval of a run holds: batches of 64 rows whose rates and share of right rows drift and jump."""
    rng = np.random.default_rng([11, seed])
    right_share = rng.uniform(0.1, 0.9)
    for number in range(1, windows + 1):
        counts = WindowCounts()
        rates = np.zeros(2)
        for _ in range(batches):
            right_share = np.clip(right_share + rng.normal(0, 0.05), 0.05, 0.95)
            right = rng.random(64) < right_share
            # Errors come in some batches alone, of the kind that this one holds.
            errs = rng.random(64) < rng.choice([0.0, 0.02, 0.6])
            drawn = rng.permutation(64)[:checks]
            counts += counted_checks((right ^ errs)[drawn].tolist(), right[drawn].tolist())
            for place, of_class in enumerate((~right, right)):
                rate = errs[of_class].mean() if of_class.any() else 0.0
                rates[place] += of_class[drawn].sum() * rate
        for interval, expected, trials in zip(
            window_intervals(counts, number), rates, (counts.wrong, counts.right), strict=True
        ):
            if trials and not interval.low <= expected / trials <= interval.high:
                return False
    return True


def test_all_intervals_of_a_run_hold_in_nearly_all_runs_though_the_rates_drift():
    failed = sum(not drifting_run(seed) for seed in range(100))
    # At most 5% on average: more than 12 of 100 would come once in a thousand.
    assert failed <= 12
