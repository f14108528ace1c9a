import copy

import pytest
import torch
from curations import curation

from geoalign.adapters.assignment import assign
from geoalign.adapters.verl.refusals import check_assignment, check_config, check_drops, check_engines, check_sessions
from geoalign.curators.registry import as_curator
from geoalign.errors import UnsupportedError
from geoalign.types import Rollouts

CONFIG = {
    "actor_rollout_ref": {"actor": {"strategy": "fsdp2"}},
    "algorithm": {"adv_estimator": "grpo", "rollout_correction": None, "use_kl_in_reward": False},
    "distillation": {"enabled": False},
}
OURS = "geoalign.adapters.verl.engine.GeoAlignFSDPEngine"


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        (("actor_rollout_ref", "actor"), "strategy", "megatron", r"strategy=megatron: .* set .*strategy=fsdp2"),
        (("algorithm",), "rollout_correction", {"bypass_mode": True}, r"bypass_mode=true: .* set it to false"),
        (("algorithm",), "adv_estimator", "gae", r"adv_estimator=gae: .* set algorithm.adv_estimator=grpo"),
        # verl's advantages of r - beta KL = [1, 0, -4, -5] would be written over by [1, -1, 1, -1].
        (("algorithm",), "use_kl_in_reward", True, r"use_kl_in_reward=true: .* set it to false .*use_kl_loss"),
        (("distillation",), "enabled", True, r"distillation.enabled=true: .* set it to false"),
    ],
)
def test_what_is_refused_in_the_configuration(section, key, value, message):
    config = copy.deepcopy(CONFIG)
    inner = config
    for name in section:
        inner = inner[name]
    inner[key] = value
    with pytest.raises(UnsupportedError, match=message):
        check_config(config)


def test_a_worker_without_the_plug_in():
    check_engines([OURS, OURS])
    with pytest.raises(UnsupportedError, match=r"worker 1 of 2 has verl.Engine: .*VERL_ENGINE_VENDOR=geoalign"):
        check_engines([OURS, "verl.Engine"])


GROUPS = torch.zeros(4, dtype=torch.long)


def placed(*source):
    return assign(curation(Rollouts(rewards=torch.zeros(4), groups=GROUPS), source=list(source)), GROUPS)


def losses(loss_agg_mode="token-mean", loss_mode="vanilla"):
    actor = {"loss_agg_mode": loss_agg_mode, "policy_loss": {"loss_mode": loss_mode}}
    return {"actor_rollout_ref": {"actor": actor}}


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"loss_agg_mode": "seq-mean-token-mean"}, r"PODS drops rows .*loss_agg_mode=seq-mean-token-mean.*token-mean"),
        # Divided by sequences and by rows of the micro-batch, whatever loss_agg_mode says.
        ({"loss_mode": "sapo"}, r"PODS drops rows under .*policy_loss.loss_mode=sapo.* set it to one of vanilla, gspo"),
        ({"loss_mode": "geo_mean"}, "loss_mode=geo_mean"),
        ({"loss_mode": "of_a_plug_in"}, "loss_mode=of_a_plug_in"),
    ],
)
def test_dropped_rows_need_a_loss_over_tokens(named, message):
    check_assignment(placed(0, 1, 2), losses(loss_mode="gspo"), "PODS")
    check_assignment(placed(0, 1, 2, 3), losses(**named), "PODS")
    with pytest.raises(UnsupportedError, match=message):
        check_assignment(placed(0, 1, 2), losses(**named), "PODS")
    # At the start, by what the curator declares.
    with pytest.raises(UnsupportedError, match=message):
        check_drops(losses(**named), "PODS", drops=as_curator("pods").drops_rows)
    check_drops(losses(**named), "Denoise", drops=as_curator("denoise").drops_rows)


def test_a_session_in_the_place_of_one_with_other_outputs():
    check_sessions(placed(0, 1, 2, 3), [[0, 1], [2], [3], [4]], "GeoAlign")
    check_sessions(placed(0, 0, 2, 3), [[0, 1], [2, 3], [4], [5]], "GeoAlign")
    with pytest.raises(UnsupportedError, match=r"GeoAlign puts .* session of 2 rows in the place of one of 1: use "):
        check_sessions(placed(0, 0, 2, 3), [[0, 1], [2], [3], [4]], "GeoAlign")
