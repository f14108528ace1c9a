"""Every refusal names the option; on stand-ins with the attributes of ms-swift 4.6's trainer."""

from argparse import Namespace
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from geoalign import GeoAlign
from geoalign.adapters.grpo_trainer.states import HiddenLocation
from geoalign.adapters.swift.refusals import OtherTraining, check_batch, check_trainer
from geoalign.curators.baselines.reshaped_advantages import GRPO
from geoalign.curators.baselines.seed_grpo import SeedGRPO
from geoalign.curators.baselines.subsets import PODS
from geoalign.curators.denoise import Denoise
from geoalign.curators.monitor import Monitor
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, UnsupportedError

LOCATION = HiddenLocation("predicting", 1.0)


def trainer(**changes):
    values = {
        "multi_turn_scheduler": None, "enable_server_multi_turn": False, "use_gym_env": False,
        "template": SimpleNamespace(sequence_parallel_size=1), "_has_teacher_explicit": lambda: False,
        "scale_rewards": "group", "kl_in_reward": False, "beta": 0.1, "use_liger_loss": False, "loss_type": "grpo",
        "is_deepspeed_enabled": False, "is_fsdp_enabled": False, "is_multimodal": False,
        "reward_func_names": ["digits", "length"],
    }  # fmt: skip
    return SimpleNamespace(**{**values, **changes})


def check(made, curator=None, fields=None):
    check_trainer(made, CurationSession(curator or GRPO(), seed=0), location=LOCATION, rollout_fields=fields or {})


def sharded(by, number):
    plugin = SimpleNamespace(zero_stage=number, fsdp_version=number)
    accelerator = SimpleNamespace(state=SimpleNamespace(deepspeed_plugin=plugin, fsdp_plugin=plugin))
    return {f"is_{by}_enabled": True, "accelerator": accelerator}


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
        ({"loss_type": "real"}, "loss_type=real: it reads the signs"),
        ({"use_liger_loss": True}, "use_liger_kernel: never run"),
        (sharded("fsdp", 2), "FSDP2: never run"),
        (sharded("deepspeed", 3), "ZeRO-3: never run"),
        *((fine, None) for fine in ({}, {"kl_in_reward": True, "beta": 0.0}, sharded("deepspeed", 2))),
        ({"is_multimodal": True}, None),
    ],
)
def test_what_is_refused(changes, message):
    with nullcontext() if message is None else pytest.raises(UnsupportedError, match=message):
        check(trainer(**changes))


def reading(*fields):
    curator = GRPO()
    curator.requires = fields
    return curator


@pytest.mark.parametrize(
    ("curator", "fields", "error", "message"),
    [
        (GeoAlign(), {}, UnsupportedError, "GeoAlign with a multimodal model: the pass for hidden states"),
        (SeedGRPO(), {}, UnsupportedError, r"SeedGRPO with log-probabilities, .* set mass: share"),
        (SeedGRPO(mass="share"), {"answers": "gold"}, None, ""),
        (reading("true_rewards"), {}, ConfigError, "requires true_rewards"),
        (reading("true_rewards"), {"true_rewards": "gold"}, None, ""),
        (Denoise(geometry="none", component="length"), {}, None, ""),
        (Denoise(geometry="none", component="x"), {}, ConfigError, "expected one of digits, length; got 'x'"),
    ],
)
def test_curators(curator, fields, error, message):
    with nullcontext() if error is None else pytest.raises(error, match=message):
        check(trainer(is_multimodal=True), curator, fields)


def test_batches():
    plain = SimpleNamespace(teacher_prompt=None, teacher_images=None)
    taught = SimpleNamespace(teacher_prompt="Think.", teacher_images=None)
    check_batch(SimpleNamespace(dynamic_num_samples=False), [plain])
    for several, sample, message in ((True, plain, "splits trajectories"), (False, taught, "teacher_prompt")):
        with pytest.raises(UnsupportedError, match=message):
            check_batch(SimpleNamespace(dynamic_num_samples=several), [sample])


def test_other_kinds_of_training():
    with pytest.raises(UnsupportedError, match="under Namespace: expected --rlhf_type grpo"):
        OtherTraining(model=None, args=Namespace())


def test_drops_that_the_loss_cannot_leave_out_are_refused_at_the_start():
    check(trainer(chord_sft_iterator=None), PODS())
    check(trainer(chord_sft_iterator=iter([]), loss_type="bnpo"), Monitor(PODS()))
    with pytest.raises(UnsupportedError, match="PODS drops rows under chord_sft_dataset"):
        check(trainer(chord_sft_iterator=iter([])), PODS())
    with pytest.raises(UnsupportedError, match="dropping rows with loss_type='bnpo'"):
        check(trainer(chord_sft_iterator=None, loss_type="bnpo"), PODS())
