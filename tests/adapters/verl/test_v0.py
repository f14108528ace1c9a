"""The helper for verl's older trainer, on a stand-in for its DataProto and on the real one."""

from __future__ import annotations

from importlib.metadata import packages_distributions
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from geoalign import CURATORS, GeoAlign, GeoAlignConfig
from geoalign.adapters.verl.v0 import curate_dataproto
from geoalign.errors import InputError, UnsupportedError
from geoalign.method.projector import ProjectorConfig

GROUPS = np.array(["a"] * 8 + ["b"] * 8, dtype=object)


def fields():
    draws = torch.Generator().manual_seed(0)
    return {
        "responses": torch.arange(48).view(16, 3),
        "token_level_scores": torch.rand(16, 3, generator=draws),
        "response_mask": torch.ones(16, 3),
    }


class StandIn(SimpleNamespace):
    def select_idxs(self, rows):
        batch = {name: value[rows] for name, value in self.batch.items()}
        other = {name: value[rows.numpy()] for name, value in self.non_tensor_batch.items()}
        return StandIn(batch=batch, non_tensor_batch=other)


def data(**changes):
    return StandIn(batch={**fields(), **changes}, non_tensor_batch={"uid": GROUPS})


def geoalign():
    return GeoAlign(
        GeoAlignConfig(alpha=0.6, min_scores=4, projector=ProjectorConfig(hidden_dim=8, output_dim=4, steps=5))
    )


def states():
    return torch.randn(16, 8, generator=torch.Generator().manual_seed(1))


def check_replaced(given, curated, metrics):
    donors = (curated.batch["responses"][:, 0] // 3).tolist()
    assert metrics["geoalign/replaced_rows"] == sum(slot != donor for slot, donor in enumerate(donors)) > 0
    for slot, donor in enumerate(donors):
        assert GROUPS[slot] == GROUPS[donor]
        for name in ("responses", "token_level_scores", "response_mask"):
            assert torch.equal(curated.batch[name][slot], given.batch[name][donor])
    assert (curated.non_tensor_batch["uid"] == GROUPS).all()


def test_replaced_rows_carry_every_field_of_their_donor():
    given = data()
    curated, metrics = curate_dataproto(given, geoalign(), hidden=states(), generator=torch.Generator().manual_seed(0))
    check_replaced(given, curated, metrics)
    assert metrics["geoalign/pairs"] > 0


def test_an_identity_returns_the_data_itself():
    given = data()
    curated, metrics = curate_dataproto(given, CURATORS["grpo"]())
    assert curated is given
    assert metrics["geoalign/replaced_rows"] == 0


@pytest.mark.parametrize("curator", [CURATORS["pods"](m=4), CURATORS["mc_grpo"]()])
def test_what_replacement_cannot_carry_is_refused(curator):
    with pytest.raises(UnsupportedError, match=r"drops or weighs rows: .*trainer.use_v1=true"):
        curate_dataproto(data(), curator)


def test_data_without_rewards():
    given = data()
    del given.batch["token_level_scores"]
    with pytest.raises(InputError, match="expected a DataProto with uid and token_level_scores"):
        curate_dataproto(given, CURATORS["grpo"]())


@pytest.mark.engines
@pytest.mark.skipif("verl" not in packages_distributions(), reason="verl is not installed (make test-verl)")
@pytest.mark.filterwarnings("ignore")
def test_verls_own_dataproto_and_advantages():
    from verl import DataProto
    from verl.trainer.ppo.core_algos import AdvantageEstimator
    from verl.trainer.ppo.ray_trainer import compute_advantage

    given = DataProto.from_dict(tensors=fields(), non_tensors={"uid": GROUPS})
    curated, metrics = curate_dataproto(given, geoalign(), hidden=states(), generator=torch.Generator().manual_seed(0))
    check_replaced(given, curated, metrics)
    curated.batch["token_level_rewards"] = curated.batch["token_level_scores"]
    made = compute_advantage(curated, adv_estimator=AdvantageEstimator.GRPO, norm_adv_by_std_in_grpo=True)
    rewards = curated.batch["token_level_scores"].sum(1)[:8]
    expected = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
    assert torch.allclose(made.batch["advantages"][:8, 0], expected, atol=1e-5)
