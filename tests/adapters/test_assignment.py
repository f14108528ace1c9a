import math

import pytest
import torch
from curations import curation

from geoalign.adapters.assignment import assign
from geoalign.adapters.decision import rewards_stay
from geoalign.errors import UnsupportedError
from geoalign.types import Rollouts

GROUPS = torch.tensor([0, 0, 0, 1, 1, 1])


def curation_of(source, **changes):
    rewards = {"rewards": [float(row) for row in range(len(source))]}
    return curation(Rollouts(rewards=torch.zeros(6), groups=GROUPS), source=source, **{**rewards, **changes})


def test_full_curation_stands_row_by_row():
    full = curation_of([1, 1, 2, 3, 5, 4], weights=[1.0, 2, 1, 1, 1, 1])
    placed = assign(full, GROUPS)
    assert placed.source.tolist() == [1, 1, 2, 3, 5, 4]
    assert placed.replaced.tolist() == [True, False, False, False, True, True]
    assert placed.kept.all()
    assert not placed.dropped
    assert placed.weights.tolist() == [1, 2, 1, 1, 1, 1]
    assert placed.advantages is None


@pytest.mark.parametrize(
    ("rewards", "stay"),
    [
        ([0.0, math.nan, 1, 1, 0, 0], True),
        ([0.0, math.nan, 1, 1, 0, 1], False),
        ([0.0, 0.5, 1, 1, 0, 0], False),
    ],
)
def test_rewards_stay_where_each_row_has_its_own_or_none(rewards, stay):
    rollouts = Rollouts(rewards=torch.tensor([0.0, math.nan, 1, 1, 0, 0]), groups=GROUPS)
    placed = assign(curation(rollouts, source=list(range(6)), rewards=rewards), GROUPS)
    assert rewards_stay(placed, rollouts) == stay


def test_shorter_curation_keeps_rows_in_their_own_positions():
    # Rows 4 and 0 are kept, in that order: output row 0 stands in position 4, output row 1 in position 0.
    placed = assign(curation_of([4, 0], rewards=[5.0, 7.0], advantages=[0.5, -0.5]), GROUPS)
    assert placed.source.tolist() == [0, 1, 2, 3, 4, 5]
    assert placed.kept.tolist() == [True, False, False, False, True, False]
    assert placed.rewards[[0, 4]].tolist() == [7.0, 5.0]
    assert placed.rewards[[1, 2, 3, 5]].isnan().all()
    assert placed.weights.tolist() == [1, 0, 0, 0, 1, 0]
    assert placed.advantages.tolist() == [-0.5, 0, 0, 0, 0.5, 0]


def test_repeats_of_a_shorter_curation_take_free_positions_of_their_group():
    # Row 1 twice: in position 1 and in 0, the first free one of group 0. Position 2 and group 1 but for row 5 drop.
    placed = assign(curation_of([1, 1, 5]), GROUPS)
    assert placed.source.tolist() == [1, 1, 2, 3, 4, 5]
    assert placed.kept.tolist() == [True, True, False, False, False, True]
    assert placed.rewards[[1, 0, 5]].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ([3, 1, 2, 3, 4, 5], "across groups: position 0 of group 0 takes row 3 of group 1"),
        ([0, 0, 1, 2], "group 0 has 3 positions"),
        ([0, 1, 2, 3, 4, 5, 5], "more rows than the batch: expected at most 6, got 7"),
    ],
)
def test_refusals_name_the_row(source, words):
    with pytest.raises(UnsupportedError, match=words):
        assign(curation_of(source), GROUPS)
