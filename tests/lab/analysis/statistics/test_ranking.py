import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.statistics import auroc, average_precision

NAN = math.nan


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
