from contextlib import contextmanager

import pytest
import torch

from geoalign import GeoAlign, Rollouts
from geoalign.curators.baselines.released import GeoAlignReleased
from geoalign.curators.precision import full_precision
from geoalign.testing.synthetic import synthetic_rollouts

ROLLOUTS = synthetic_rollouts(16, 6, 16, seed=0).rollouts
SMALL = {"hidden_dim": 16, "output_dim": 8, "steps": 5}


@contextmanager
def reduced(precision):
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")


def test_the_threads_modes_are_kept_out_and_come_back():
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        with full_precision(ROLLOUTS):
            assert not torch.is_inference_mode_enabled()
            assert not torch.is_grad_enabled()
            assert not torch.is_autocast_enabled("cpu")
        assert torch.is_inference_mode_enabled()
        assert torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize("precision", ["high", "medium"])
@pytest.mark.parametrize(
    "curator",
    [
        lambda: GeoAlign(projector={"hidden_dim": 256, "output_dim": 64, "steps": 5}),
        lambda: GeoAlign(projector=None),
        lambda: GeoAlignReleased(min_epochs=2, max_epochs=2),
    ],
)
def test_reduced_products_are_kept_out(curator, precision):
    """In bfloat16, in which some CPUs then compute, the scores of a projector are 3e-3 apart."""
    rollouts = synthetic_rollouts(32, 8, 256, seed=0).rollouts
    expected = curator().curate(rollouts, generator=torch.Generator().manual_seed(0))
    with reduced(precision):
        found = curator().curate(rollouts, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(found.scores, expected.scores, equal_nan=True, atol=1e-4, rtol=1e-5)


def test_a_restored_projector_has_its_dtype_whatever_the_default():
    saved = GeoAlign(projector=SMALL)
    saved.curate(ROLLOUTS, generator=torch.Generator().manual_seed(0))
    restored = GeoAlign(projector=SMALL)
    torch.set_default_dtype(torch.float64)
    try:
        restored.load_state_dict(saved.state_dict())
    finally:
        torch.set_default_dtype(torch.float32)
    one = saved.curate(ROLLOUTS, generator=torch.Generator().manual_seed(1))
    other = restored.curate(ROLLOUTS, generator=torch.Generator().manual_seed(1))
    assert torch.equal(one.scores, other.scores)


def test_deterministic_algorithms_may_be_on():
    """Every operation of a curation has a deterministic form (on this device): without one torch raises."""
    torch.use_deterministic_algorithms(True)
    try:
        GeoAlign(projector=SMALL).curate(ROLLOUTS, generator=torch.Generator().manual_seed(0))
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
def test_the_same_bits_on_an_accelerator():
    rollouts = synthetic_rollouts(32, 8, 512, seed=0).rollouts
    moved = Rollouts(rewards=rollouts.rewards, groups=rollouts.groups, hidden=rollouts.hidden.cuda())
    first = GeoAlign().curate(moved, generator=torch.Generator().manual_seed(0))
    second = GeoAlign().curate(moved, generator=torch.Generator().manual_seed(0))
    assert torch.equal(first.scores, second.scores)
