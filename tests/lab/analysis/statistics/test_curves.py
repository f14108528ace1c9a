import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from geoalign.errors import InputError
from geoalign.statistics import ema, largest_drop, oscillation, pass_at_k, powers_of_two


@pytest.mark.parametrize(
    ("values", "steps", "expected"),
    [
        # 0, 1, 0, 1: e = 0 - 1 and 1 - 0; e^2 / 1.5 is 2/3 in both: sqrt(2/3).
        ([0, 1, 0, 1], None, math.sqrt(2 / 3)),
        ([1, 8, 1, 8], None, 7 * math.sqrt(2 / 3)),
        # Steps 0, 1, 3, values 0, 3, 3: a = (3 - 1)/3 = 2/3, b = 1/3, e = 0 + 1 - 3 = -2; 4 / (4/9 + 1/9 + 1) = 18/7.
        ([0, 3, 3], [0, 1, 3], math.sqrt(18 / 7)),
        ([0, math.nan, 3, 3], [0, 0.5, 1, 3], math.sqrt(18 / 7)),
        ([0.1, 0.2, 0.3, 0.4], None, 0),
        ([3, 1, -5, -7], [0, 1, 4, 5], 0),
        ([1, 2], None, math.nan),
        ([1, math.nan, 2], None, math.nan),
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
    assert largest_drop([1, 2, math.nan, 3]) == 0
    assert largest_drop([3, math.nan, 1]) == 2
    assert math.isnan(largest_drop([math.nan]))


def test_ema_by_hand():
    # s_0 = 1; s_1 = 0.6 * 1 + 0.4 * 2 = 1.4; the missing fourth point leaves it there; 0.6 * 1.4 + 0.4 * 0 = 0.84.
    assert ema([math.nan, 1, 2, math.nan, 0]).tolist() == pytest.approx([math.nan, 1, 1.4, 1.4, 0.84], nan_ok=True)


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
