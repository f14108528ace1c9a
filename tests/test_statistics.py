import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.errors import InputError
from geoalign.statistics import (
    auroc,
    average_precision,
    ema,
    holm,
    largest_drop,
    oscillation,
    paired_difference,
    pass_at_k,
    powers_of_two,
    proportion_over_groups,
    seed_interval,
    share_interval,
    wilson_interval,
)

NAN = math.nan


@pytest.mark.parametrize(
    ("values", "steps", "expected"),
    [
        # 0, 1, 0, 1: e = 0 - 1 and 1 - 0; e^2 / 1.5 is 2/3 in both: sqrt(2/3).
        ([0, 1, 0, 1], None, math.sqrt(2 / 3)),
        ([1, 8, 1, 8], None, 7 * math.sqrt(2 / 3)),
        # Steps 0, 1, 3, values 0, 3, 3: a = (3 - 1)/3 = 2/3, b = 1/3, e = 0 + 1 - 3 = -2; 4 / (4/9 + 1/9 + 1) = 18/7.
        ([0, 3, 3], [0, 1, 3], math.sqrt(18 / 7)),
        ([0, NAN, 3, 3], [0, 0.5, 1, 3], math.sqrt(18 / 7)),
        ([0.1, 0.2, 0.3, 0.4], None, 0),
        ([3, 1, -5, -7], [0, 1, 4, 5], 0),
        ([1, 2], None, NAN),
        ([1, NAN, 2], None, NAN),
    ],
)
def test_oscillation_by_hand(values, steps, expected):
    assert oscillation(values, steps) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_oscillation_is_the_standard_deviation_of_independent_noise_around_a_rise():
    draw = np.random.default_rng(0)
    curve = 0.01 * np.arange(20_000) + draw.normal(0, 0.3, 20_000)
    assert oscillation(curve) == pytest.approx(0.3, rel=0.03)
    steps = np.cumsum(draw.integers(1, 4, 20_000))
    assert oscillation(0.01 * steps + draw.normal(0, 0.3, 20_000), steps) == pytest.approx(0.3, rel=0.03)


def test_largest_drop_by_hand():
    # Maxima 1, 4, 4, 4, 5; falls 0, 0, 1, 3, 0.
    assert largest_drop([1, 4, 3, 1, 5]) == 3
    assert largest_drop([1, 2, NAN, 3]) == 0
    assert largest_drop([3, NAN, 1]) == 2
    assert math.isnan(largest_drop([NAN]))


def test_ema_by_hand():
    # s_0 = 1; s_1 = 0.6 * 1 + 0.4 * 2 = 1.4; the missing fourth point leaves it there; 0.6 * 1.4 + 0.4 * 0 = 0.84.
    assert ema([NAN, 1, 2, NAN, 0]).tolist() == pytest.approx([NAN, 1, 1.4, 1.4, 0.84], nan_ok=True)


def test_pass_at_k_is_the_share_of_draws_that_hold_a_right_answer():
    for samples in range(1, 8):
        for correct in range(samples + 1):
            answers = [True] * correct + [False] * (samples - correct)
            for k in range(1, samples + 1):
                draws = list(combinations(answers, k))
                assert pass_at_k(samples, correct, k) == sum(map(any, draws)) / len(draws)


def test_small_and_large_values_keep_every_digit():
    # One right answer in n gives k/n; as 1 - product of rounded factors it would lose digits.
    assert pass_at_k(10_000_000, 1, 1) == 1e-7
    assert pass_at_k(100_000, 1, 3) == 3e-5
    # All but three wrong of 2,000, k = 1,000: 1 - (1000 x 999 x 998)/(2000 x 1999 x 1998).
    expected = 1 - Fraction(1000 * 999 * 998, 2000 * 1999 * 1998)
    assert pass_at_k(2000, 3, 1000) == float(expected)


def test_k_goes_over_powers_of_two():
    assert [powers_of_two(largest) for largest in (1, 2, 7, 8)] == [[1], [1, 2], [1, 2, 4], [1, 2, 4, 8]]


@pytest.mark.parametrize(
    ("correct", "k", "name"), [(1, 5, "k: expected 1"), (1, 0, "k: expected 1"), (5, 1, "correct: expected 0")]
)
def test_numbers_out_of_range_are_refused(correct, k, name):
    with pytest.raises(InputError, match=rf"{name} to 4 \(samples\), got {max(correct, k) if k else 0}"):
        pass_at_k(4, correct, k)


@pytest.mark.parametrize(
    ("scores", "marked", "expected"),
    [
        ([0.9, NAN, 0.1, NAN], [1, 1, 0, 0], 1.0),
        ([math.inf, 1.0, -math.inf], [1, 0, 0], 1.0),
        ([1.0, 2.0], [1, 1], NAN),
        ([1.0, 2.0], [0, 0], NAN),
        ([], [], NAN),
    ],
)
def test_auroc_by_hand(scores, marked, expected):
    assert auroc(scores, marked) == pytest.approx(expected, nan_ok=True)


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=30))
def test_auroc_equals_the_count_over_pairs_and_turns_round(items):
    scores = np.array([score for score, _ in items], dtype=float)
    marked = np.array([mark for _, mark in items])
    wins = [float(p > n) + float(p == n) / 2 for p in scores[marked] for n in scores[~marked]]
    if wins:
        assert auroc(scores, marked) == pytest.approx(np.mean(wins))
        assert auroc(-scores, marked) == pytest.approx(1 - np.mean(wins))
        assert auroc(8 * scores + 1, marked) == auroc(scores, marked)


@pytest.mark.parametrize(
    ("scores", "marked", "expected"),
    [
        # In falling order: marked, unmarked, marked, unmarked. Recall rises by 1/2 at precision 1/1 and by 1/2 at 2/3.
        ([4, 3, 2, 1], [1, 0, 1, 0], 0.5 * 1 + 0.5 * 2 / 3),
        # The two 4s enter together at precision 1/2 with recall 1/2; the 2 then at precision 2/3.
        ([4, 4, 2], [1, 0, 1], 0.5 * 1 / 2 + 0.5 * 2 / 3),
        ([4, 4, 2], [0, 1, 1], 0.5 * 1 / 2 + 0.5 * 2 / 3),
        ([1, 1, 1, 1], [1, 0, 0, 0], 0.25),  # a constant score: the base rate
        ([1, 2], [0, 0], NAN),
    ],
)
def test_average_precision_by_hand(scores, marked, expected):
    assert average_precision(scores, marked) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
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
        # A pair with a NaN is left out.
        (share_interval([1, NAN, 2, 3], [10, 5, 10, 10]), (0.2, -0.048414, 0.448414)),
    ],
)
def test_intervals_by_hand(interval, expected):
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
