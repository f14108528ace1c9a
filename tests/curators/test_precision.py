import pytest
import torch

from geoalign import GeoAlign, Rollouts
from geoalign.curators.geoalign.released import GeoAlignReleased
from geoalign.curators.precision import deterministic, full_precision
from geoalign.lab.bench.synthetic import synthetic_rollouts

ROLLOUTS = synthetic_rollouts(16, 6, 16, seed=0).rollouts
SMALL = {"hidden_dim": 16, "output_dim": 8, "steps": 5}


def own():
    backends = torch.backends
    return backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn, backends.mkldnn.matmul


def flags():
    return [one.fp32_precision for one in own()]


@pytest.fixture
def restored():
    before = flags()
    yield
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = True
    for one, value in zip(own(), before, strict=True):
        one.fp32_precision = value


@pytest.mark.parametrize(
    "change",
    [
        lambda: torch.set_float32_matmul_precision("medium"),
        lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    ],
)
def test_reduced_products_are_kept_out_and_restored(change, restored):
    change()
    before = flags()
    with full_precision(ROLLOUTS):
        assert flags() == ["ieee"] * 4
        assert not torch.backends.cuda.matmul.allow_tf32
        assert not torch.backends.cudnn.allow_tf32
        assert torch.get_float32_matmul_precision() == "highest"
    assert flags() == before
    with pytest.raises(ZeroDivisionError), full_precision(ROLLOUTS):
        _ = 1 / 0
    assert flags() == before


@pytest.mark.parametrize(
    ("curator", "dtype"),
    [
        (lambda: GeoAlign(projector=SMALL), torch.float64),
        (lambda: GeoAlign(projector=SMALL), torch.bfloat16),
        (lambda: GeoAlignReleased(min_epochs=2, max_epochs=3), torch.bfloat16),
    ],
)
def test_the_default_dtype_changes_no_bit(curator, dtype):
    expected = curator().curate(ROLLOUTS, generator=torch.Generator().manual_seed(0))
    saved = curator()
    saved.curate(ROLLOUTS, generator=torch.Generator().manual_seed(0))
    torch.set_default_dtype(dtype)
    try:
        found = curator().curate(ROLLOUTS, generator=torch.Generator().manual_seed(0))
        restored = curator()
        restored.load_state_dict(saved.state_dict())
        assert torch.get_default_dtype() == dtype
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.scores.dtype == torch.float32
    assert torch.equal(found.scores, expected.scores)
    one, other = (each.curate(ROLLOUTS, generator=torch.Generator().manual_seed(1)) for each in (saved, restored))
    assert torch.equal(one.scores, other.scores)


def test_deterministic_algorithms_are_asked_for_and_the_askers_setting_comes_back():
    torch.use_deterministic_algorithms(False)  # another library may have asked for them in this process
    with deterministic():
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.is_deterministic_algorithms_warn_only_enabled()  # an unset CUBLAS_WORKSPACE_CONFIG must not raise
        # Every operation of a curation has a deterministic form (on this device): warnings are errors here.
        GeoAlign(projector=SMALL).curate(ROLLOUTS, generator=torch.Generator().manual_seed(0))
    assert not torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        with deterministic():
            pass
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.gpu
def test_the_same_bits_on_an_accelerator():
    rollouts = synthetic_rollouts(32, 8, 512, seed=0).rollouts
    moved = Rollouts(rewards=rollouts.rewards, groups=rollouts.groups, hidden=rollouts.hidden.cuda())
    first, second = (GeoAlign().curate(moved, generator=torch.Generator().manual_seed(0)) for _ in range(2))
    assert torch.equal(first.scores, second.scores)
