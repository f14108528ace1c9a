"""The share of wrong rewards, from identical responses."""

import math

import pytest

from geoalign.method.error_rate import error_rate


def test_by_hand():
    # Verdicts, e = 0.2: 2 * 0.2 * 0.8 = 0.32. Continuous, e = 0.2: 1 - 0.8^2 = 0.36.
    assert error_rate(32, 100, binary=True) == pytest.approx(0.2)
    assert error_rate(36, 100, binary=False) == pytest.approx(0.2)
    assert error_rate(0, 7, binary=True) == error_rate(0, 7, binary=False) == 0
    # More than half of the pairs differ only by chance: one half is as wrong as verdicts can be.
    assert error_rate(6, 10, binary=True) == 0.5
    assert error_rate(10, 10, binary=False) == 1
    assert math.isnan(error_rate(0, 0, binary=True))
