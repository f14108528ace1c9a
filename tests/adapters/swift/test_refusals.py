"""Every refusal names the option; on stand-ins with the attributes of ms-swift 4.6's trainer."""

from types import SimpleNamespace

import pytest
import torch

from geoalign.adapters.swift.refusals import OtherTraining, check_batch, check_drops, check_trainer
from geoalign.adapters.trl.states import StatePlace
from geoalign.curators.baselines.advantages import GRPO
from geoalign.curators.baselines.seed_grpo import SeedGRPO
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, UnsupportedError

PLACE = StatePlace("predicting", 1.0)


def trainer(**changes):
    values = {
        "multi_turn_scheduler": None,
        "enable_server_multi_turn": False,
        "use_gym_env": False,
        "template": SimpleNamespace(sequence_parallel_size=1),
        "_has_teacher_explicit": lambda: False,
        "scale_rewards": "group",
        "kl_in_reward": False,
        "beta": 0.1,
        "use_liger_loss": False,
        "is_deepspeed_enabled": False,
        "is_fsdp_enabled": False,
        "is_multimodal": False,
        "reward_func_names": ["digits", "length"],
    }
    return SimpleNamespace(**{**values, **changes})


def check(made, curator=None, fields=None):
    check_trainer(made, CurationSession(curator or GRPO(), seed=0), place=PLACE, rollout_fields=fields or {})


def test_a_plain_trainer_passes():
    check(trainer())
    check(trainer(kl_in_reward=True, beta=0.0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"multi_turn_scheduler": object()}, "multi_turn_scheduler: rows of several turns"),
        ({"enable_server_multi_turn": True}, "multi_turn_scheduler: rows of several turns"),
        ({"use_gym_env": True}, "use_gym_env: rows of several turns"),
        ({"template": SimpleNamespace(sequence_parallel_size=2)}, "sequence_parallel_size: .* set it to 1"),
        ({"_has_teacher_explicit": lambda: True}, "teacher: its term enters the advantages of every row"),
        ({"scale_rewards": "gdpo"}, "scale_rewards=gdpo: .* set it to group"),
        ({"kl_in_reward": True}, "kl_in_reward=true: .* set it to false"),
        ({"use_liger_loss": True}, "use_liger_kernel: never run"),
        ({"is_fsdp_enabled": True}, "fsdp: never run"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(UnsupportedError, match=message):
        check(trainer(**changes))


def test_zero_3_but_not_zero_2():
    def with_stage(stage):
        plugin = SimpleNamespace(zero_stage=stage)
        accelerator = SimpleNamespace(state=SimpleNamespace(deepspeed_plugin=plugin))
        return trainer(is_deepspeed_enabled=True, accelerator=accelerator)

    check(with_stage(2))
    with pytest.raises(UnsupportedError, match="deepspeed zero3: never run"):
        check(with_stage(3))


def test_states_of_a_multimodal_model():
    check(trainer(is_multimodal=True))
    from geoalign import GeoAlign

    with pytest.raises(UnsupportedError, match="GeoAlign with a multimodal model: the pass for hidden states"):
        check(trainer(is_multimodal=True), GeoAlign())


def test_log_probabilities():
    with pytest.raises(UnsupportedError, match=r"SeedGRPO with log-probabilities, .* set mass: share"):
        check(trainer(), SeedGRPO())
    check(trainer(), SeedGRPO(mass="share"), {"answers": "gold"})


def test_fields_that_nobody_gives():
    curator = GRPO()
    curator.requires = ("true_rewards",)
    with pytest.raises(ConfigError, match="requires true_rewards"):
        check(trainer(), curator)
    check(trainer(), curator, {"true_rewards": "gold"})


def test_batches_and_drops():
    sample = SimpleNamespace(teacher_prompt=None, teacher_images=None)
    check_batch(SimpleNamespace(dynamic_num_samples=False), [sample])
    with pytest.raises(UnsupportedError, match="splits trajectories"):
        check_batch(SimpleNamespace(dynamic_num_samples=True), [sample])
    with pytest.raises(UnsupportedError, match="teacher_prompt"):
        check_batch(
            SimpleNamespace(dynamic_num_samples=False), [SimpleNamespace(teacher_prompt="Think.", teacher_images=None)]
        )
    check_drops(SimpleNamespace(chord_sft_iterator=None), "PODS")
    with pytest.raises(UnsupportedError, match="PODS drops rows under chord_sft_dataset"):
        check_drops(SimpleNamespace(chord_sft_iterator=iter([])), "PODS")


def test_other_kinds_of_training():
    class GKDConfig:
        pass

    with pytest.raises(UnsupportedError, match="under GKDConfig: expected --rlhf_type grpo"):
        OtherTraining(model=torch.nn.Linear(1, 1), args=GKDConfig())


def test_a_component_that_is_no_reward_function():
    from geoalign.curators.denoise import Denoise

    check(trainer(), Denoise(geometry="none", component="length"))
    with pytest.raises(ConfigError, match="component: expected one of digits, length; got 'verdict'"):
        check(trainer(), Denoise(geometry="none", component="verdict"))
