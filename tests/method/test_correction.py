"""The correction that trusted rows teach: what it finds, when it stays silent, and that scale does not matter."""

import math

import pytest
import torch

from geoalign.method.correction import learnt_correction
from geoalign.method.ridge import group_centred

GROUP = torch.arange(160) // 8
TRUSTED = GROUP < 10


def states(seed=0, width=6):
    draw = torch.Generator().manual_seed(seed)
    return group_centred(torch.randn(160, width, generator=draw), GROUP)


def test_an_error_along_the_states_is_predicted_for_all_rows():
    """Residuals -2 x of the first column, known for half of the groups: the other half's are found."""
    x = states()
    error = -2 * x[:, 0].double()
    correction, interval = learnt_correction(x, error * TRUSTED, TRUSTED, GROUP, level=0.95)
    assert interval.low > 0.8
    torch.testing.assert_close(correction[~TRUSTED], error[~TRUSTED], atol=0.4, rtol=0.1)


def test_residuals_of_other_rows_are_not_heeded():
    x = states()
    error = x[:, 0].double()
    expected, _ = learnt_correction(x, error, TRUSTED, GROUP, level=0.95)
    correction, _ = learnt_correction(x, error.masked_fill(~TRUSTED, math.nan), TRUSTED, GROUP, level=0.95)
    assert torch.equal(correction, expected)


def test_noise_is_no_correction():
    """Three penalties share the level: 100 draws of noise pass at most 7 times (nominal 2.5; 99.5% of draws)."""
    passed = 0
    for seed in range(100):
        draw = torch.Generator().manual_seed(1000 + seed)
        noise = torch.randn(160, generator=draw, dtype=torch.float64)
        correction, interval = learnt_correction(states(seed), noise, TRUSTED, GROUP, level=0.95)
        assert (correction is None) == (not interval.low > 0)
        passed += correction is not None
    assert passed <= 7


@pytest.mark.parametrize("trusted", [GROUP < 0, GROUP == 3])
def test_fewer_than_two_groups_teach_nothing(trusted):
    correction, interval = learnt_correction(states(), torch.ones(160).double(), trusted, GROUP, level=0.95)
    assert correction is None
    assert math.isnan(interval.estimate)
