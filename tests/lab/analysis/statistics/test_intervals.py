import math

import numpy as np
import pytest

from geoalign.intervals import clustered_proportion, mean_interval
from geoalign.lab.runs.reading import Evaluation, accuracy_of_evaluation
from geoalign.statistics import (
    holm,
    paired_difference,
    proportion_over_groups,
    seed_interval,
    share_interval,
    wilson_interval,
)

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
        (clustered([], []), (NAN, NAN, NAN)),
        # 1, 2, 3: sd 1, error 0.57735, t with 2 degrees 4.302653: reach 2.484138.
        (mean(1, 2, 3, NAN), (2, -0.484138, 4.484138)),
        (mean(1), (1, NAN, NAN)),
        (mean(), (NAN, NAN, NAN)),
        (seed_interval([1, NAN, 2, 3]), (2, -0.484138, 4.484138)),
        (seed_interval([1, 2, NAN]), (1.5, NAN, NAN)),
        (seed_interval([]), (NAN, NAN, NAN)),
        # n = 10, p = 1/2, z = 1.959964: z^2 = 3.841459; centre 1/2 by symmetry;
        # half = 1.959964 * sqrt(0.025 + 3.841459 / 400) / 1.3841459 = 1.959964 * 0.1860206 / 1.3841459 = 0.263407.
        (wilson_interval(5, 10), (0.5, 0.236593, 0.763407)),
        # p = 0: low 0, high = (z^2/n) / (1 + z^2/n) = 0.3841459 / 1.3841459 = 0.277533.
        (wilson_interval(0, 10), (0, 0, 0.277533)),
        (wilson_interval(10, 10), (1, 1 - 0.277533, 1)),
        (wilson_interval(0, 0), (NAN, NAN, NAN)),
        # A constant whole, mean 2, sd 1, n = 3: 2 +- 4.30265 / sqrt(3) = 2 +- 2.48414; divided by 10.
        (share_interval([1, 2, 3], [10, 10, 10]), (0.2, -0.048414, 0.448414)),
        # Unbounded where the whole may be zero, and with two pairs.
        (share_interval([1, 1, 1], [1, -1, 0.9]), (1 / 0.3, NAN, NAN)),
        (share_interval([1, 2], [3, 3]), (0.5, NAN, NAN)),
        (share_interval([], []), (NAN, NAN, NAN)),
    ],
)
def test_by_hand(interval, expected):
    assert (interval.estimate, interval.low, interval.high) == pytest.approx(expected, abs=1e-5, nan_ok=True)


@pytest.mark.parametrize(
    ("right", "total", "expected"),
    [
        # 12 of 30 problems always right, 64 answers each: p = 0.4, residuals 38.4 (12 times) and -25.6 (18 times):
        # error sqrt(30/29 * (12 * 38.4^2 + 18 * 25.6^2)) / 1920 = 0.090972; t with 29 degrees 2.045230: 0.186059.
        ([64] * 12 + [0] * 18, [64] * 30, (0.4, 0.213941, 0.586059)),
        # One answer each: Wilson's of 12 in 30: centre (12 + 1.920729) / 33.841459 = 0.411351;
        # half = 1.959964 * sqrt(0.24 / 30 + 3.841459 / 3600) / 1.128049 = 0.165445.
        ([1] * 12 + [0] * 18, [1] * 30, (0.4, 0.245906, 0.576796)),
        # No spread between problems, whatever the share: Wilson's of the share in so many problems.
        ([0] * 30, [64] * 30, (0.0, 0.0, 0.113513)),
        ([64] * 30, [64] * 30, (1.0, 0.886487, 1.0)),
        ([1] * 10, [2] * 10, (0.5, 0.236593, 0.763407)),
        ([], [], (NAN, NAN, NAN)),
    ],
)
def test_an_accuracy_has_its_interval_over_problems(right, total, expected):
    found, _ = proportion_over_groups(right, total)
    assert (found.estimate, found.low, found.high) == pytest.approx(expected, abs=1e-5, nan_ok=True)


def test_lines_of_earlier_versions_have_the_interval_that_can_be_known():
    def ends(**values):
        line = Evaluation(0, "rl", "s", values.pop("accuracy", 0.4), values.pop("correct", 12), 30, **values)
        found = accuracy_of_evaluation(line)
        return None if found is None else (found.low, found.high)

    assert ends(samples=64, accuracy_low=0.2, accuracy_high=0.6) == (0.2, 0.6)
    # One answer to each problem; several, or nobody knows how many.
    assert ends(samples=1) == pytest.approx((0.245906, 0.576796), abs=1e-5)
    assert ends(samples=3) == pytest.approx((NAN, NAN), nan_ok=True)
    assert ends() == pytest.approx((NAN, NAN), nan_ok=True)
    assert ends(accuracy=NAN, correct=None) is None


def test_paired_difference_by_hand():
    # Differences 1, 2, 3: mean 2, sd 1, error 1/sqrt(3) = 0.57735, t = 3.4641 with 2 degrees of freedom, whose 97.5%
    # point is 4.302653: reach 2.484138. Two-sided p for 2 degrees: 1 - t/sqrt(2 + t^2) = 1 - 3.4641/3.741657 = .07418.
    # Seeds 3 (no number on the left), 4 and 7 stand on one side, 8 on none.
    found = paired_difference({0: 3, 1: 5, 2: 9, 3: NAN, 4: 9}, {0: 2, 1: 3, 2: 6, 3: 0, 7: 0, 8: NAN})
    interval = (found.interval.estimate, found.interval.low, found.interval.high)
    assert interval == pytest.approx((2, -0.484138, 4.484138), abs=1e-5)
    assert found.p == pytest.approx(0.074180, abs=1e-5)
    assert (found.pairs, found.left_out, found.defined, found.excludes_zero) == (3, 3, True, False)


def test_differences_without_spread_are_no_proof_and_equal_arms_differ_by_nothing():
    equal = paired_difference({0: 0.1, 1: 0.7, 2: 0.3}, {0: 0.1, 1: 0.7, 2: 0.3})
    assert (equal.interval.low, equal.interval.high, equal.p, equal.excludes_zero) == (0, 0, 1, False)
    # All exactly 0.1, and 0.1 up to rounding: a t interval of width zero would call either certain.
    assert not paired_difference(dict.fromkeys(range(3), 0.1), dict.fromkeys(range(3), 0.0)).defined
    rounded = paired_difference({0: 0.3, 1: 0.8, 2: 1.1}, {0: 0.2, 1: 0.7, 2: 1.0})
    assert not rounded.excludes_zero
    assert rounded.interval.estimate == pytest.approx(0.1)


def test_holm_by_hand():
    # Sorted .005, .01, .03, .04 times 4, 3, 2, 1: .02, .03, .06, .04; running maximum: .02, .03, .06, .06.
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    # What was not tested does not count: .02 x 2 and max(.04, .03 x 1).
    assert holm([NAN, 0.02, 0.03]).tolist() == pytest.approx([NAN, 0.04, 0.04], nan_ok=True)
    assert holm([0.6, 0.7]).tolist() == [1.0, 1.0]


def test_ends_of_a_share_are_those_that_a_t_test_just_cannot_refute():
    draw = np.random.default_rng(0)
    wholes = draw.normal(2.0, 0.3, 8)
    parts = 0.4 * wholes + draw.normal(0.0, 0.2, 8)
    share = share_interval(parts, wholes)
    for end in (share.low, share.high):
        left = dict(enumerate((parts - end * wholes).tolist()))
        assert paired_difference(left, dict.fromkeys(left, 0.0)).p == pytest.approx(0.05)
