"""The correlation of predictions with unseen rewards, and how often noise passes for a signal."""

import math

import numpy as np
import pytest
import torch

from geoalign.method.groups import group_centred
from geoalign.noise.ridge import grouped_correlation, predict_next

ONES = np.ones(4)
PAIRS = np.array([0, 0, 1, 1])


def test_by_hand():
    # sum zy = 1 + 2 = 3, sum z^2 = 6, sum y^2 = 3: r = 3 / sqrt(18), slope 1/2.
    z = np.array([1.0, 1.0, 2.0, 0.0])
    y = np.array([1.0, 0.0, 1.0, 1.0])
    found = grouped_correlation(z, y, PAIRS, ONES)
    assert found.estimate == pytest.approx(3 / math.sqrt(18))
    # z (y - z / 2) = .5, -.5, 0, 0: within group 0 they cancel; as groups of their own they do not.
    assert found.high - found.low == pytest.approx(0, abs=1e-12)
    three_groups = np.array([0, 1, 2, 2])
    apart = grouped_correlation(z, y, three_groups, ONES)
    half_width = apart.high - apart.estimate
    # Student's t on 2 degrees of freedom at 97.5%: 4.302653.
    assert half_width == pytest.approx(4.302653 * math.sqrt(0.5) / math.sqrt(18), rel=1e-5)
    doubled = grouped_correlation(z, y, three_groups, ONES, inflation=2.0)
    assert doubled.high - doubled.estimate == pytest.approx(math.sqrt(2) * half_width)


def test_one_group_excludes_nothing_and_nothing_to_correlate_is_nan():
    alone = grouped_correlation(ONES, ONES, np.zeros(4, dtype=int), ONES)
    assert alone.estimate == 1
    assert not alone.low > 0
    without_prediction = grouped_correlation(0 * ONES, ONES, np.arange(4), ONES)
    assert math.isnan(without_prediction.low)
    without_weight = grouped_correlation(ONES, ONES, np.arange(4), 0 * ONES)
    assert math.isnan(without_weight.low)


def rewards(draw, groups=40, size=8):
    """Noise, standardised within each group."""
    values = torch.randn(groups, size, generator=draw, dtype=torch.float64)
    return ((values - values.mean(1, keepdim=True)) / values.std(1, keepdim=True)).flatten()


@pytest.mark.parametrize("past", [True, False])
def test_noise_passes_no_more_often_than_the_level_says(past):
    """Nominal 2.5% of 400 batches of noise above 0: between 1% and 4.5% (99.9% of binomial draws)."""
    draw = torch.Generator().manual_seed(0)
    group = torch.arange(320) // 8
    used = torch.ones(320, dtype=torch.bool)
    passed = 0
    for _ in range(400):
        states = group_centred(torch.randn(320, 12, generator=draw), group)
        y = rewards(draw)
        sums = {}
        if past:
            earlier = group_centred(torch.randn(320, 12, generator=draw), group)
            _, sums = predict_next(sums, earlier, rewards(draw), used, group, penalties=(1.0,))
        z, _ = predict_next(sums, states, y, used, group, penalties=(1.0,))
        found = grouped_correlation(
            z.double().numpy(),
            y.double().numpy(),
            group.numpy(),
            np.ones(320),
            inflation=1.0 if past else 2.0,
        )
        passed += found.low > 0
    assert 4 <= passed <= 18
