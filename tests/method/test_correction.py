"""The correction that trusted rows teach: what it finds, when it stays silent, and that scale does not matter."""

import math

import pytest
import torch

from geoalign.method.correction import PENALTIES, learnt_correction
from geoalign.method.ridge import RunningRidge, fold_predictions, group_centred

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


def test_it_is_applied_at_the_lower_end_of_its_slope():
    """(l / r) (z d / z z) times the ridge's prediction: with as much noise as error far below it."""
    x = states()
    noise = torch.randn(160, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    residuals = x[:, 0].double() + noise
    correction, interval = learnt_correction(x, residuals, TRUSTED, GROUP, level=0.95)
    known, d, ones = x[TRUSTED], residuals[TRUSTED], torch.ones(80, 1, dtype=torch.float64)
    by_penalty = []
    for penalty in PENALTIES:
        z = fold_predictions(known, d, ones, GROUP[TRUSTED], penalty=penalty)[:, 0].double()
        ridge = RunningRidge(penalties=(penalty,))
        ridge.add(known, d, ones)
        slope = interval.low / interval.estimate * (z @ d) / (z @ z)
        by_penalty.append(slope * ridge.predict(x).best[:, 0].double())
    assert 0 < interval.low / interval.estimate < 0.7
    assert any(torch.allclose(correction, expected) for expected in by_penalty)


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
