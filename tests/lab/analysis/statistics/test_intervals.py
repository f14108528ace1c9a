"""Intervals by hand."""

import math

import numpy as np
import pytest

from geoalign.method.intervals import clustered_proportion, jackknife, mean_interval


def test_clustered_proportion_by_hand():
    # Two groups: 3 of 4 and 1 of 4 right. p = 0.5, residuals 1 and -1: variance 2 / 1 * 2 / 64 = 1/16, error 0.25.
    # t with one degree of freedom at 97.5% is 12.7062: the bounds are cut to 0 and 1.
    interval = clustered_proportion(np.array([3.0, 1.0]), np.array([4.0, 4.0]))
    assert (interval.estimate, interval.low, interval.high) == (0.5, 0.0, 1.0)
    # Four such groups: variance 4/3 * 4 / 256 = 1/48, error 0.144338; t with 3 degrees 3.182446: reach 0.459347.
    interval = clustered_proportion(np.array([3.0, 1.0, 3.0, 1.0]), np.array([4.0] * 4))
    assert interval.high - 0.5 == pytest.approx(0.459347, abs=1e-5)
    assert 0.5 - interval.low == pytest.approx(0.459347, abs=1e-5)


def test_clustered_proportion_covers():
    draw = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        chance = draw.beta(2, 2, 30)
        interval = clustered_proportion(draw.binomial(10, chance).astype(float), np.full(30, 10.0))
        covered += interval.low <= 0.5 <= interval.high
    # 95% of 400 is 380, standard deviation 4.4.
    assert 360 <= covered <= 398


def test_clustered_proportion_degenerate():
    nothing = clustered_proportion(np.array([]), np.array([]))
    assert math.isnan(nothing.estimate)
    assert clustered_proportion(np.array([2.0]), np.array([4.0])).low == 0.0


def test_mean_interval_by_hand():
    # 1, 2, 3: sd 1, error 0.57735, t with 2 degrees 4.302653: reach 2.484138.
    interval = mean_interval(np.array([1.0, 2.0, 3.0, math.nan]))
    assert interval.estimate == 2
    assert interval.high == pytest.approx(4.484138, abs=1e-5)
    assert math.isnan(mean_interval(np.array([1.0])).low)
    assert math.isnan(mean_interval(np.array([])).estimate)


def test_jackknife_by_hand():
    """Without each block 1, 2, 3: mean 2, variance 2/3 x (1 + 0 + 1) = 4/3; t on 2 degrees of freedom is 4.302653."""
    interval = jackknife(2.5, [1.0, 2.0, 3.0])
    reach = 4.302653 * (4 / 3) ** 0.5
    assert interval.estimate == 2.5
    assert interval.low == pytest.approx(2.5 - reach, rel=1e-5)
    assert interval.high == pytest.approx(2.5 + reach, rel=1e-5)
