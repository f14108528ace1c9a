import math

import numpy as np
import pytest

from geoalign.intervals import clustered_proportion, mean_interval

NAN = math.nan


def clustered(right, total):
    return clustered_proportion(np.array(right, dtype=float), np.array(total, dtype=float))


def mean(*values):
    return mean_interval(np.array(values, dtype=float))


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        # Two groups: 3 of 4 and 1 of 4 right. p = 0.5, residuals 1 and -1: variance 2 / 1 * 2 / 64 = 1/16, error 0.25.
        # t with one degree of freedom at 97.5% is 12.7062: the bounds are cut to 0 and 1.
        (clustered([3, 1], [4, 4]), (0.5, 0.0, 1.0)),
        # Four such groups: variance 4/3 * 4 / 256 = 1/48, error 0.144338; t with 3 degrees 3.182446: reach 0.459347.
        (clustered([3, 1, 3, 1], [4] * 4), (0.5, 0.040653, 0.959347)),
        (clustered([2], [4]), (0.5, 0.0, 1.0)),
        # Two groups without any spread: Wilson's of 2 of 2, whose lower end is 2 / (2 + z^2) with z = 1.959964.
        (clustered([4, 4], [4, 4]), (1.0, 0.342380, 1.0)),
        (clustered([], []), (NAN, NAN, NAN)),
        # 1, 2, 3: sd 1, error 0.57735, t with 2 degrees 4.302653: reach 2.484138.
        (mean(1, 2, 3, NAN), (2, -0.484138, 4.484138)),
        (mean(1), (1, NAN, NAN)),
        (mean(), (NAN, NAN, NAN)),
    ],
)
def test_by_hand(interval, expected):
    assert (interval.estimate, interval.low, interval.high) == pytest.approx(expected, abs=1e-5, nan_ok=True)
