"""Oscillation and falls of a curve, by hand."""

import math

import numpy as np
import pytest

from geoalign.lab.analysis.statistics import largest_drop, oscillation

NAN = math.nan


def test_oscillation_by_hand():
    # 0, 1, 0, 1: e = 0 - 1 and 1 - 0; e^2 / 1.5 is 2/3 in both: sqrt(2/3).
    assert oscillation([0, 1, 0, 1]) == pytest.approx(math.sqrt(2 / 3))
    # Steps 0, 1, 3 and values 0, 3, 3: a = (3 - 1)/3 = 2/3, b = 1/3, e = 0 + 1 - 3 = -2; 4 / (4/9 + 1/9 + 1) = 18/7.
    assert oscillation([0, 3, 3], [0, 1, 3]) == pytest.approx(math.sqrt(18 / 7))


def test_a_steady_curve_does_not_oscillate():
    assert oscillation([0.1, 0.2, 0.3, 0.4]) == pytest.approx(0, abs=1e-12)
    steps = np.array([0.0, 1.0, 4.0, 5.0])
    assert oscillation(3 - 2 * steps, steps) == pytest.approx(0, abs=1e-12)


def test_oscillation_is_the_standard_deviation_of_independent_noise_around_a_rise():
    draw = np.random.default_rng(0)
    curve = 0.01 * np.arange(20_000) + draw.normal(0, 0.3, 20_000)
    assert oscillation(curve) == pytest.approx(0.3, rel=0.03)
    steps = np.cumsum(draw.integers(1, 4, 20_000))
    assert oscillation(0.01 * steps + draw.normal(0, 0.3, 20_000), steps) == pytest.approx(0.3, rel=0.03)


def test_oscillation_scales_and_ignores_missing_points():
    curve = [1.0, 3.0, 2.0, 5.0]
    assert oscillation([7 * value + 1 for value in curve]) == pytest.approx(7 * oscillation(curve))
    assert oscillation([0, NAN, 3, 3], [0, 0.5, 1, 3]) == pytest.approx(oscillation([0, 3, 3], [0, 1, 3]))
    assert math.isnan(oscillation([1.0, 2.0]))
    assert math.isnan(oscillation([1.0, NAN, 2.0]))


def test_largest_drop_by_hand():
    # Maxima 1, 4, 4, 4, 5; falls 0, 0, 1, 3, 0.
    assert largest_drop([1, 4, 3, 1, 5]) == 3
    assert largest_drop([1, 2, NAN, 3]) == 0
    assert largest_drop([3, NAN, 1]) == 2
    assert math.isnan(largest_drop([NAN]))
