"""Intervals that hold at every moment of checking."""

import numpy as np
import pytest

from geoalign.checks.anytime import anytime_intervals
from geoalign.checks.rates import modified_wilson

ROWS = 400


def truth(seed=0, class_share=0.6, rate=0.2):
    rng = np.random.default_rng(seed)
    in_class = rng.random(ROWS) < class_share
    return in_class, in_class & (rng.random(ROWS) < rate)


def order(draw):
    return np.random.default_rng([3, draw]).permutation(ROWS)[:80]


def test_every_interval_of_a_draw_holds_in_nearly_all_draws():
    in_class, error = truth()
    rate = error.sum() / in_class.sum()
    failed = 0
    for draw in range(40):
        checked = order(draw)
        ends = anytime_intervals(in_class[checked], error[checked], rows=ROWS)
        failed += not ((ends[:, 0] <= rate) & (rate <= ends[:, 1])).all()
    # At most 5% on average: more than six of 40 would come once in a thousand.
    assert failed <= 6


def test_looking_at_every_moment_breaks_an_interval_of_one_moment():
    in_class, error = truth()
    rate = error.sum() / in_class.sum()
    failed = 0
    for draw in range(40):
        checked = order(draw)
        counts = zip(error[checked].cumsum().tolist(), in_class[checked].cumsum().tolist(), strict=True)
        ends = np.array([modified_wilson(errors, trials) for errors, trials in counts])
        failed += not ((ends[:, 0] <= rate) & (rate <= ends[:, 1])).all()
    assert failed > 6


def test_intervals_shrink_and_lie_within_each_other():
    in_class, error = truth()
    ends = anytime_intervals(in_class[order(0)], error[order(0)], rows=ROWS)
    assert ends[0] == pytest.approx([0, 1], abs=0.1)
    assert (np.diff(ends[:, 0]) >= 0).all()
    assert (np.diff(ends[:, 1]) <= 0).all()
    assert ends[-1, 1] - ends[-1, 0] < 0.4


def test_rows_outside_the_class_tell_nothing():
    nothing = np.zeros(30, dtype=bool)
    ends = anytime_intervals(nothing, nothing, rows=ROWS)
    assert (ends[:, 0] == 0).all()
    assert (ends[:, 1] == 1).all()


def test_an_end_between_two_rates_of_the_grid_is_put_on_the_outer_one():
    # One of 2,000 rows is an error, and it comes as the 151st: neither 0 nor 0.001 is the rate, which is 1 / 2000.
    error = np.zeros(1999, dtype=bool)
    error[150] = True
    ends = anytime_intervals(np.ones(1999, dtype=bool), error, rows=2000)
    assert (ends[:, 0] <= 1 / 2000).all()
    # With 1,999 of 2,000 rows checked only 1 / 2000 and 2 / 2000 are left.
    assert ends[-1] == pytest.approx([0, 0.002])
