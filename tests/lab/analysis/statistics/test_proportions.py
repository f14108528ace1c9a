"""Wilson's interval."""

import math

import pytest

from geoalign.lab.analysis.statistics import wilson_interval


def test_wilson_by_hand():
    # n = 10, p = 1/2, z = 1.959964: z^2 = 3.841459; centre 1/2 by symmetry;
    # half = 1.959964 * sqrt(0.025 + 3.841459 / 400) / 1.3841459 = 1.959964 * 0.1860206 / 1.3841459 = 0.263407.
    interval = wilson_interval(5, 10)
    assert interval.estimate == 0.5
    assert (interval.low, interval.high) == pytest.approx((0.236593, 0.763407), abs=1e-5)


def test_wilson_keeps_a_width_at_the_ends():
    # p = 0: low 0, high = (z^2/n) / (1 + z^2/n) = 0.3841459 / 1.3841459 = 0.277533.
    none = wilson_interval(0, 10)
    assert (none.low, none.high) == pytest.approx((0, 0.277533), abs=1e-5)
    every = wilson_interval(10, 10)
    assert (every.low, every.high) == pytest.approx((1 - 0.277533, 1), abs=1e-5)


def test_wilson_without_trials_is_undefined():
    assert math.isnan(wilson_interval(0, 0).estimate)
