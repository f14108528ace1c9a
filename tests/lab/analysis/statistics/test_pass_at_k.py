from fractions import Fraction
from itertools import combinations

import pytest

from geoalign.errors import InputError
from geoalign.lab.analysis.statistics import mean_pass_at_k, pass_at_k, powers_of_two


def test_it_is_the_share_of_draws_that_hold_a_right_answer():
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


def test_the_mean_goes_over_problems():
    # (0 + 0.5 + 1) / 3 with k = 2 of 4: 0, 1 and 4 right answers.
    assert mean_pass_at_k([0, 1, 4], samples=4, k=2) == 0.5


@pytest.mark.parametrize(
    ("largest", "expected"), [(1, [1]), (2, [1, 2]), (7, [1, 2, 4]), (64, [1, 2, 4, 8, 16, 32, 64])]
)
def test_powers_of_two(largest, expected):
    assert powers_of_two(largest) == expected


def test_numbers_out_of_range_are_refused():
    with pytest.raises(InputError, match=r"k: expected 1 to 4 \(samples\), got 5"):
        pass_at_k(4, 1, 5)
    with pytest.raises(InputError, match="k: expected 1 to 4"):
        pass_at_k(4, 1, 0)
    with pytest.raises(InputError, match=r"correct: expected 0 to 4 \(samples\), got 5"):
        pass_at_k(4, 5, 1)
