"""Which rows the ridge learns from, by hand."""

import math

import pytest
import torch

from geoalign.method.groups import canonical_order
from geoalign.noise.rows import noisy_rows
from geoalign.types import Rollouts


@pytest.mark.parametrize(
    ("rewards", "fitted"),
    [
        # Between the extremes, also exactly at the group's mean.
        ([0.0, 0.5, 1.0], [0.5]),
        ([0.0, 0.4, 1.0], [0.4]),
        # Nothing lies between: all rows.
        ([0.0, 0.25, 0.25], [0.0, 0.25, 0.25]),
        # Verdicts: all rows of an unequal group.
        ([0.0, 1.0, 1.0], [0.0, 1.0, 1.0]),
        ([1.0, 1.0, 1.0], []),
        ([0.0, 0.5, 1.0, math.nan], [0.5]),
    ],
)
def test_the_rows_that_the_ridge_learns_from(rewards, fitted):
    rollouts = Rollouts(rewards=torch.tensor(rewards), groups=torch.zeros(len(rewards), dtype=torch.long))
    rows = noisy_rows(rollouts, canonical_order(rollouts.rewards, rollouts.groups), answers=False)
    assert sorted(rows.rewards[rows.fitted].tolist()) == pytest.approx(fitted)
