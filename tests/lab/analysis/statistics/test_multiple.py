"""Holm's correction by hand."""

import math

import numpy as np
import pytest

from geoalign.lab.analysis.statistics import holm

NAN = math.nan


def test_holm_by_hand():
    # Sorted .005, .01, .03, .04 times 4, 3, 2, 1: .02, .03, .06, .04; running maximum: .02, .03, .06, .06.
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_ends_at_one_and_keeps_a_single_value():
    assert holm([0.4, 0.9, 0.5]).tolist() == [1, 1, 1]
    assert holm([0.03]).tolist() == [0.03]
    assert holm([]).tolist() == []


def test_untested_comparisons_do_not_count():
    adjusted = holm([NAN, 0.02, 0.03])
    assert math.isnan(adjusted[0])
    # Two tests: .02 x 2 and max(.04, .03 x 1).
    assert adjusted[1:].tolist() == pytest.approx([0.04, 0.04])


def test_holm_keeps_the_chance_of_any_false_finding():
    draw = np.random.default_rng(2)
    false = sum((holm(draw.random(10)) < 0.05).any() for _ in range(1000))
    # At most 5% of 1000, standard deviation 6.9; without the correction 40% would have one.
    assert 20 <= false <= 71
