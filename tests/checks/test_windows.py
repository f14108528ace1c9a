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


def run_holds(intervals, seed, windows=24, batches=4):
    """Whether every interval of a run holds; in each batch the policy and both rates are others."""
    rng = np.random.default_rng([11, seed])
    for number in range(1, windows + 1):
        right = rng.multinomial(100, np.ones(batches) / batches)
        wrong = rng.multinomial(rng.integers(20, 100), np.ones(batches) / batches)
        # Some batches are judged well, others poorly.
        rates = rng.choice([0.02, 0.1, 0.4], size=(2, batches))
        counts = WindowCounts(
            wrong=int(wrong.sum()),
            accepted=int(rng.binomial(wrong, rates[0]).sum()),
            right=int(right.sum()),
            refused=int(rng.binomial(right, rates[1]).sum()),
        )
        means = (wrong @ rates[0] / wrong.sum(), right @ rates[1] / right.sum())
        found = intervals(counts, number)
        if not all(each.low <= mean <= each.high for each, mean in zip(found, means, strict=True)):
            return False
    return True


def test_all_intervals_of_a_run_hold_in_nearly_all_runs_though_the_rates_drift():
    failed = sum(not run_holds(window_intervals, seed) for seed in range(200))
    # At most 5% on average: more than 20 of 200 would come once in a thousand.
    assert failed <= 20


def test_intervals_of_one_moment_fail_in_most_runs():
    def of_one_moment(counts, number):
        return window_intervals(counts, 1)

    assert sum(not run_holds(of_one_moment, seed) for seed in range(200)) > 20
