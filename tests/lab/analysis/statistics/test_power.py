"""What a paired design can detect, and the share that was recovered, by hand and by simulation."""

import math

import numpy as np
import pytest
from scipy.stats import t as student

from geoalign.lab.analysis.statistics import paired_difference, seed_interval, share_interval, smallest_detectable


def test_with_many_pairs_it_is_the_normal_approximation():
    # (1.95996 + 0.84162) sd / sqrt(n) = 2.80158 x 1000 / 1000.
    assert smallest_detectable(1000.0, 1_000_000) == pytest.approx(2.80158, abs=1e-4)
    # At a power of one half the second term is 0: 1.95996.
    assert smallest_detectable(1000.0, 1_000_000, power=0.5) == pytest.approx(1.95996, abs=1e-4)


@pytest.mark.parametrize("pairs", [5, 20])
def test_a_simulated_design_finds_it_four_times_in_five(pairs):
    draw = np.random.default_rng(3)
    differences = draw.normal(smallest_detectable(2.0, pairs), 2.0, (40_000, pairs))
    t = differences.mean(1) / (differences.std(1, ddof=1) / math.sqrt(pairs))
    # The share found has a standard error of sqrt(0.8 x 0.2 / 40,000) = 0.002.
    assert (t > student.ppf(0.975, pairs - 1)).mean() == pytest.approx(0.8, abs=0.008)


def test_without_spread_or_pairs():
    assert smallest_detectable(0.0, 5) == 0
    assert math.isnan(smallest_detectable(1.0, 1))
    assert math.isnan(smallest_detectable(math.nan, 5))


def test_a_constant_whole_gives_students_interval_divided_by_it():
    # mean 2, sd 1, n = 3: 2 +- 4.30265 / sqrt(3) = 2 +- 2.48414; divided by 10.
    share = share_interval([1, 2, 3], [10, 10, 10])
    assert (share.estimate, share.low, share.high) == pytest.approx((0.2, -0.048414, 0.448414), abs=1e-5)


def test_its_ends_are_the_shares_that_a_t_test_just_cannot_refute():
    draw = np.random.default_rng(0)
    wholes = draw.normal(2.0, 0.3, 8)
    parts = 0.4 * wholes + draw.normal(0.0, 0.2, 8)
    share = share_interval(parts, wholes)
    for end in (share.low, share.high):
        left = dict(enumerate((parts - end * wholes).tolist()))
        assert paired_difference(left, dict.fromkeys(left, 0.0)).p == pytest.approx(0.05)


def test_it_is_unbounded_where_the_whole_may_be_zero():
    wholes = [1.0, -1.0, 0.9]
    assert seed_interval(wholes).low < 0 < seed_interval(wholes).high
    share = share_interval([1.0, 1.0, 1.0], wholes)
    assert share.estimate == pytest.approx(1 / 0.3)
    assert math.isnan(share.low)
    assert math.isnan(share.high)
    assert math.isnan(share_interval([1.0, 2.0], [3.0, 3.0]).low)
    assert math.isnan(share_interval([], []).estimate)
