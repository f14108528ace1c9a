"""Paired differences over seeds, by hand and against scipy."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_rel

from geoalign.lab.analysis.statistics import paired_difference, seed_interval, spread

NAN = math.nan


def test_paired_difference_by_hand():
    # Differences 1, 2, 3: mean 2, sd 1, error 1/sqrt(3) = 0.57735, t = 3.4641 with 2 degrees of freedom, whose 97.5%
    # point is 4.302653: reach 2.484138. Two-sided p for 2 degrees: 1 - t/sqrt(2 + t^2) = 1 - 3.4641/3.741657 = .07418.
    found = paired_difference({0: 3.0, 1: 5.0, 2: 9.0}, {0: 2.0, 1: 3.0, 2: 6.0})
    assert found.interval.estimate == 2
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.484138, 4.484138), abs=1e-5)
    assert found.p == pytest.approx(0.074180, abs=1e-5)
    assert (found.pairs, found.left_out) == (3, 0)
    assert found.defined
    assert not found.excludes_zero


def test_it_pairs_by_seed_not_by_place():
    # Seed by seed the differences are 1, 1.5 and 0.5; in the order given they would be 1, 100.5 and -98.5.
    found = paired_difference({0: 1.0, 2: 100.5, 1: 1.5}, {1: 0.0, 0: 0.0, 2: 100.0})
    assert found.interval.estimate == 1
    assert found.interval.low == pytest.approx(1 - 4.302653 * 0.5 / math.sqrt(3), abs=1e-5)


def test_seeds_of_one_side_are_left_out_and_counted():
    found = paired_difference(
        {0: 1.0, 1: 2.0, 2: 4.0, 3: NAN, 4: 9.0}, {0: 0.0, 1: 0.0, 2: 0.0, 3: 0.0, 7: 0.0, 8: NAN}
    )
    # Common: 0, 1, 2. Seeds 3 (no number on the left), 4 and 7 stand on one side, 8 on none.
    assert (found.pairs, found.left_out) == (3, 3)
    assert found.interval.estimate == pytest.approx(7 / 3)


def test_it_agrees_with_scipy():
    draw = np.random.default_rng(0)
    first, second = draw.normal(0.3, 1, 8), draw.normal(0, 1, 8)
    found = paired_difference(dict(enumerate(first)), dict(enumerate(second)))
    test = ttest_rel(first, second)
    reference = test.confidence_interval(0.95)
    assert found.p == pytest.approx(test.pvalue, rel=1e-9)
    assert (found.interval.low, found.interval.high) == pytest.approx((reference.low, reference.high), rel=1e-9)


@pytest.mark.parametrize("seeds", [1, 2])
def test_one_or_two_seeds_have_no_interval(seeds):
    found = paired_difference({seed: 5.0 + seed for seed in range(seeds)}, dict.fromkeys(range(seeds), 0.0))
    assert found.interval.estimate == 5 + (seeds - 1) / 2
    assert math.isnan(found.interval.low)
    assert math.isnan(found.p)
    assert not found.defined
    assert not found.excludes_zero


def test_equal_arms_differ_by_exactly_nothing():
    found = paired_difference({0: 0.1, 1: 0.7, 2: 0.3}, {0: 0.1, 1: 0.7, 2: 0.3})
    assert (found.interval.low, found.interval.high, found.p) == (0, 0, 1)
    assert not found.excludes_zero


def test_differences_without_spread_are_no_proof():
    # All exactly 0.1, and 0.1 up to rounding: a t interval of width zero would call either certain.
    assert not paired_difference(dict.fromkeys(range(3), 0.1), dict.fromkeys(range(3), 0.0)).defined
    rounded = paired_difference({0: 0.3, 1: 0.8, 2: 1.1}, {0: 0.2, 1: 0.7, 2: 1.0})
    assert not rounded.excludes_zero
    assert rounded.interval.estimate == pytest.approx(0.1)


def test_seed_interval_needs_three_seeds():
    # 1, 2, 3: reach 4.302653 / sqrt(3) = 2.484138.
    assert seed_interval([1.0, NAN, 2.0, 3.0]).high == pytest.approx(4.484138, abs=1e-5)
    two = seed_interval([1.0, 2.0, NAN])
    assert two.estimate == 1.5
    assert math.isnan(two.low)
    assert math.isnan(seed_interval([]).estimate)


def test_spread_by_hand():
    assert spread([1.0, 3.0, NAN]) == pytest.approx(math.sqrt(2))
    assert math.isnan(spread([1.0]))
