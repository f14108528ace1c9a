"""The definition of detection quality, by hand on one batch."""

import math

import numpy as np
import pytest

from geoalign.lab.analysis.detection import Ranking, Tally, mean_ranking, ranking, rows_that_count, tally

NAN = math.nan
# Group 0: rewards 1, 0, 0; group 1: a tie; group 2: a reward, and a row without one.
REWARDS = np.array([1.0, 0.0, 0.0, 1.0, 1.0, 2.0, NAN])
GROUPS = np.array([0, 0, 0, 1, 1, 2, 2])
CORRUPTED = np.array([True, False, False, True, False, False, True])
KNOWN = np.array([True, True, False, True, True, True, True])
COUNTING = np.array([True, True, False, False, False, False, False])


def test_rows_count_where_they_are_in_a_pair_and_known():
    assert rows_that_count(REWARDS, GROUPS, KNOWN).tolist() == COUNTING.tolist()


def test_tally_by_hand():
    marked = np.array([True, True, True, True, False, False, False])
    found = tally(marked, CORRUPTED, COUNTING, KNOWN)
    # Of the four marked, row 2 is of unknown truth; rows 0 and 3 are corrupted; of these row 0 alone is in a pair.
    assert found == Tally(rows=2, corrupted=1, marked=3, marked_corrupted=2, found=1)
    assert (found.base_rate, found.precision, found.recall) == (1 / 2, 2 / 3, 1)
    twice = found + found
    assert (twice.rows, twice.base_rate, twice.precision, twice.recall) == (4, 1 / 2, 2 / 3, 1)


def test_nothing_counted_is_undefined():
    nothing = Tally()
    assert all(math.isnan(value) for value in (nothing.base_rate, nothing.precision, nothing.recall))
    mean, batches = mean_ranking([Ranking(NAN, NAN)])
    assert batches == 0
    assert math.isnan(mean.auroc)


def test_scores_of_rows_that_do_not_count_are_not_ranked():
    scores = np.array([0.5, 0.4, 9.0, 0.0, 9.0, 9.0, 0.0])
    # Of the two rows that count the corrupted one is higher; over all rows it would not be.
    assert ranking(scores, CORRUPTED, COUNTING) == Ranking(1.0, 1.0)
    assert not ranking(np.full(7, NAN), CORRUPTED, COUNTING).defined


def test_the_mean_is_over_batches_where_it_is_defined():
    mean, batches = mean_ranking([Ranking(0.5, 0.25), Ranking(NAN, NAN), Ranking(1.0, 0.75)])
    assert batches == 2
    assert (mean.auroc, mean.average_precision) == pytest.approx((0.75, 0.5))
