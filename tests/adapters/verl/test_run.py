"""The curator of one verl training: draws, place of computing, checkpoints."""

import pytest
import torch

from geoalign import GeoAlignConfig
from geoalign.adapters.step import named
from geoalign.adapters.verl.run import CuratorRun
from geoalign.adapters.verl.settings import VerlSettings
from geoalign.curators.baselines.subsets import PODSConfig
from geoalign.curators.denoise import DenoiseConfig
from geoalign.errors import InputError
from geoalign.method.projector import ProjectorConfig
from geoalign.types import Rollouts

SETTINGS = VerlSettings(
    curator=GeoAlignConfig(alpha=0.4, min_scores=4, projector=ProjectorConfig(hidden_dim=8, output_dim=4, steps=5)),
    seed=3,
)
DENOISE = VerlSettings(curator=DenoiseConfig(level=0.01), seed=3)


def rollouts(seed=0):
    draws = torch.Generator().manual_seed(seed)
    return Rollouts(
        rewards=torch.rand(32, generator=draws),
        groups=torch.arange(32) // 8,
        hidden=torch.randn(32, 8, generator=draws),
    )


def same(one, other):
    given = [torch.zeros(1) if each.advantages is None else each.advantages for each in (one, other)]
    assert torch.equal(*given)
    assert torch.equal(one.rewards, other.rewards)
    assert torch.equal(one.source, other.source)
    assert torch.equal(one.scores.nan_to_num(), other.scores.nan_to_num())


def test_a_curation_moves_no_global_generator():
    before = torch.get_rng_state()
    CuratorRun(SETTINGS).start(rollouts()).result()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("settings", [SETTINGS, DENOISE])
def test_a_resumed_run_goes_on_bit_for_bit(tmp_path, settings):
    run = CuratorRun(settings)
    run.start(rollouts(0)).result()
    run.save(tmp_path / "global_step_1")
    resumed = CuratorRun(settings)
    resumed.load(tmp_path / "global_step_1")
    assert resumed.session.calls == 1
    same(run.start(rollouts(1)).result().curation, resumed.start(rollouts(1)).result().curation)


def test_a_checkpoint_without_the_curators_state(tmp_path):
    with pytest.raises(InputError, match=r"expected geoalign_state.safetensors .* trainer.resume_mode=disable"):
        CuratorRun(SETTINGS).load(tmp_path)


def test_a_checkpoint_of_another_curator(tmp_path):
    CuratorRun(SETTINGS).save(tmp_path)
    with pytest.raises(InputError, match=r"expected the state of PODS, got that of GeoAlign .*curator.type"):
        CuratorRun(VerlSettings(curator=PODSConfig())).load(tmp_path)


def test_an_error_of_the_curator_reaches_the_trainer():
    run = CuratorRun(SETTINGS)
    bare = Rollouts(rewards=torch.zeros(4), groups=torch.zeros(4, dtype=torch.long))
    with pytest.raises(InputError, match="needs the rollout field"):
        run.start(bare).result()


def test_metrics_have_names_of_their_own_and_no_nan():
    batch = rollouts()
    decision = CuratorRun(SETTINGS).start(batch).result()
    metrics = named({**decision.metrics, "wait_seconds": 0.25, "undefined": float("nan")})
    assert all(name.startswith("geoalign/") and value == value for name, value in metrics.items())
    assert metrics["geoalign/raw_reward"] == pytest.approx(batch.rewards.mean().item())
    assert metrics["geoalign/replaced_rows"] == float((decision.placement.source != torch.arange(32)).sum())
    assert metrics["geoalign/wait_seconds"] == 0.25
    assert metrics["geoalign/seconds"] > 0
    assert metrics["geoalign/pairs"] > 0
