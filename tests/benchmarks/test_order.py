import itertools
import math

import numpy as np
import pytest
from benchmarks.wrong_rewards import group_orders
from hypothesis import given, settings
from hypothesis import strategies as st


def test_rows_without_a_score_are_left_out():
    scores = np.array([math.nan, 0.0, 1.0, math.nan, 0.0])
    right = np.array([False, False, True, True, False])
    assert group_orders(scores, right, np.array([0, 0, 0, 1, 1])) == {0: 1.0}


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 4)), min_size=1, max_size=24))
def test_order_is_that_of_all_pairs(rows):
    groups, right, scores = (np.array(column) for column in zip(*rows, strict=True))
    expected = {}
    for group in set(groups.tolist()):
        pairs = [
            (scores[i] > scores[j]) + (scores[i] == scores[j]) / 2
            for i, j in itertools.product(range(len(rows)), repeat=2)
            if groups[i] == groups[j] == group and right[i] and not right[j]
        ]
        if pairs:
            expected[group] = pytest.approx(np.mean(pairs))
    assert group_orders(scores.astype(float), right.astype(bool), groups) == expected
