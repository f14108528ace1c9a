"""Which rows the ridge learns from, by hand."""

import math

import pytest
import torch

from geoalign.method.groups import canonical_order
from geoalign.noise.rows import noisy_rows, two_values
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


SCORES = torch.linspace(-3, 3, 255)
SUMMED = float(torch.tensor(0.1) + torch.tensor(0.6))


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        # One outlier, beside which all other rewards are equal but for rounding, makes no verdicts of scores.
        ([*SCORES.tolist(), -1e7], None),
        # Verdicts are such however rare one of them is, also where sums differ by rounding.
        ([1.0] * 10 + [0.0] * 246, (0.0, 1.0)),
        ([1.0] + [SUMMED, 0.7] * 100, (0.7, 1.0)),
        # Terms that cancel leave rounding as large as the other verdict's.
        ([1.0] * 20 + [0.0, 3e-8] * 100, (0.0, 1.0)),
        # A bonus beside verdicts of which the rarer is common, or rare.
        ([1.0, 1.1] * 10 + [0.0, 0.1] * 90, (0.1, 1.1)),
        ([1.0, 1.1] * 4 + [0.0, 0.1] * 96, None),
    ],
)
def test_what_counts_as_two_verdicts(rewards, expected):
    found = two_values(torch.tensor(rewards).double())
    assert found == (None if expected is None else pytest.approx(expected, abs=0.11))
