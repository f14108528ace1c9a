"""The exponential moving average of the paper's curves."""

import math

import pytest

from geoalign.lab.analysis.statistics import ema


def test_ema_by_hand():
    # s_0 = 1; s_1 = 0.6 * 1 + 0.4 * 2 = 1.4; s_2 = 0.6 * 1.4 + 0.4 * 0 = 0.84.
    assert ema([1, 2, 0]).tolist() == pytest.approx([1, 1.4, 0.84])


def test_ema_passes_over_missing_points():
    # Nothing before the first number; the missing fourth point leaves the average where it was.
    smoothed = ema([math.nan, 1, 2, math.nan, 0])
    assert math.isnan(smoothed[0])
    assert smoothed[1:].tolist() == pytest.approx([1, 1.4, 1.4, 0.84])
