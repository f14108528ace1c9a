"""Ranking scores: hand-worked values, ties, missing scores, bad input."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.lab.analysis.statistics import auroc, average_precision


def test_auroc_without_ties():
    # Marked 0.9 and 0.4; unmarked 0.8 and 0.1. Pairs won: 0.9 beats both, 0.4 beats 0.1 only: 3 of 4.
    assert auroc([0.9, 0.8, 0.4, 0.1], [True, False, True, False]) == 0.75


def test_auroc_counts_ties_one_half():
    # Marked 2, 1; unmarked 2, 1, 0. Marked 2 against (2, 1, 0): 1/2 + 1 + 1; marked 1: 0 + 1/2 + 1. 4 of 6 in all.
    assert auroc([2, 1, 2, 1, 0], [True, True, False, False, False]) == pytest.approx(4 / 6)
    assert auroc([5, 5, 5, 5], [True, False, False, True]) == 0.5


def test_auroc_leaves_out_nan_scores():
    scores, marked = [0.9, math.nan, 0.1, math.nan], [True, True, False, False]
    assert auroc(scores, marked) == 1.0


@pytest.mark.parametrize("marked", [[True, True], [False, False]])
def test_auroc_is_undefined_without_both_kinds(marked):
    assert math.isnan(auroc([1.0, 2.0], marked))
    assert math.isnan(auroc([], []))


def test_infinite_scores_rank_at_the_ends():
    assert auroc([math.inf, 1.0, -math.inf], [True, False, False]) == 1.0


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=30))
def test_auroc_equals_the_count_over_pairs_and_turns_round(items):
    scores = np.array([score for score, _ in items], dtype=float)
    marked = np.array([mark for _, mark in items])
    wins = [float(p > n) + float(p == n) / 2 for p in scores[marked] for n in scores[~marked]]
    if not wins:
        assert math.isnan(auroc(scores, marked))
    else:
        assert auroc(scores, marked) == pytest.approx(np.mean(wins))
        assert auroc(-scores, marked) == pytest.approx(1 - np.mean(wins))
        assert auroc(8 * scores + 1, marked) == auroc(scores, marked)


def test_average_precision_by_hand():
    # In falling order: marked, unmarked, marked, unmarked. Recall rises by 1/2 at precision 1/1 and by 1/2 at 2/3.
    assert average_precision([4, 3, 2, 1], [True, False, True, False]) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


def test_average_precision_takes_ties_together():
    # The two 4s enter together at precision 1/2 with recall 1/2; the 2 then at precision 2/3.
    expected = 0.5 * 1 / 2 + 0.5 * 2 / 3
    assert average_precision([4, 4, 2], [True, False, True]) == pytest.approx(expected)
    assert average_precision([4, 4, 2], [False, True, True]) == pytest.approx(expected)


def test_average_precision_of_a_constant_score_is_the_base_rate():
    assert average_precision([1, 1, 1, 1], [True, False, False, False]) == 0.25
    assert math.isnan(average_precision([1, 2], [False, False]))
