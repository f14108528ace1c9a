"""SkyRL's own trainers, loops, batches and losses; its workers and engines, which need GPUs, are stood in for."""

import asyncio
import json
import re
import shlex
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import torch
from asking import settings_with
from curations import curation
from skyrl_parts import trainer_of

from geoalign.errors import ConfigError, UnsupportedError
from geoalign.types import response_keys

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif("skyrl" not in packages_distributions(), reason="skyrl is not installed (make test-skyrl)"),
]
WATCHING = {"type": "monitor", "curator": {"type": "denoise", "geometry": "none"}}
MONITOR = {"curator": WATCHING, "rollout_fields": {"answers": "answer"}}
HALF = 0.5 / (0.57735027 + 1e-6)  # 1 1 0 0: mean 1/2, standard deviation sqrt(4 (1/2)^2 / 3)


def decided(folder, changes, section=None, **settings):
    """The first batch that the workers get, of one prompt, and its rows' advantages, times the tokens in the loss."""
    trainer, staged = trainer_of(folder, section, prompts=1, **settings)
    trainer._session.curate = lambda rollouts: curation(rollouts, **changes)
    asyncio.run(trainer.train())
    return staged[0], (staged[0]["advantages"][:, -1] * staged[0]["loss_mask"].sum()).tolist()


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("section", [None, MONITOR])
def test_what_changes_nothing_is_plain_skyrl_bit_for_bit(tmp_path, section, asynchronous):
    from skyrl.train.fully_async_trainer import FullyAsyncRayPPOTrainer
    from skyrl.train.trainer import RayPPOTrainer

    kind = FullyAsyncRayPPOTrainer if asynchronous else RayPPOTrainer
    plain, expected = trainer_of(tmp_path / "plain", kind=kind, asynchronous=asynchronous)
    curated, found = trainer_of(tmp_path / "curated", section, asynchronous=asynchronous)
    for trainer in (plain, curated):
        asyncio.run(trainer.train())
    assert len(found) == 2
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        assert all(value is other[key] or torch.equal(value, other[key]) for key, value in one.items())
    logged = {name: value for call in curated.tracker.log.call_args_list for name, value in call.args[0].items()}
    assert (logged["geoalign/raw_reward"], logged["geoalign/replaced_rows"]) == (0.5, 0.0)
    assert ("geoalign/alarms" in logged) == (section is MONITOR)


NAN, DROP = float("nan"), {"source": [0, 1, 3]}
MOVE = {"source": [1, 0, 0, 3], "weights": [0.5, 1.0, 1.0, 1.0]}


@pytest.mark.parametrize(
    ("changes", "by_std", "expected"),
    [
        (MOVE, True, [0.25, 0.5, 0.5, -1.5]),  # 1 1 1 0: mean 3/4, standard deviation 1/2
        ({"rewards": [0.75, 0.75, 0.25, 0.25]}, False, [0.25, 0.25, -0.25, -0.25]),
        ({"rewards": [0.7] * 4}, True, [0.0] * 4),
        (DROP, True, [0.57735, 0.57735, 0.0, -1.15470]),  # 1 1 0: mean 2/3, standard deviation sqrt(1/3)
        ({"rewards": [1.0, NAN, NAN, NAN]}, True, [0.0] * 4),  # SkyRL's own of a single one is 1
    ],
)
def test_advantages_are_skyrls_of_the_rewards_that_stand_there(tmp_path, changes, by_std, expected):
    batch, found = decided(tmp_path, changes, **{"trainer.algorithm.grpo_norm_by_std": by_std})
    assert found == pytest.approx(expected, abs=2e-5)
    assert (batch["advantages"] == batch["advantages"] * batch["response_mask"]).all()


def test_a_replaced_row_is_its_donor_and_returns_have_no_weight(tmp_path):
    batch, _ = decided(tmp_path, MOVE)
    for key in ("sequences", "attention_mask", "response_mask", "loss_mask", "action_log_probs", "rollout_logprobs"):
        assert torch.equal(batch[key][1], batch[key][2])
    assert batch["loss_mask"].sum(1).tolist() == [2, 1, 1, 4]
    assert batch["action_log_probs"][:, -1].tolist() == [-1, 0, 0, -3]
    assert batch["returns"][:, -1].tolist() == pytest.approx([0.5, 0.5, 0.5, -1.5], abs=1e-4)


def test_the_gradient_of_skyrls_loss_is_that_of_the_kept_rows(tmp_path):
    from skyrl.backends.skyrl_train.utils.ppo_utils import ppo_policy_loss
    from skyrl.train.config import AlgorithmConfig

    batch, (first, second, _, last) = decided(tmp_path, DROP)
    batch["action_log_probs"][2] = -200.0  # a ratio that would overflow
    logps = batch["action_log_probs"].clone().fill_(-0.5).requires_grad_()
    before = logps.detach().where(batch["loss_mask"] > 0, batch["action_log_probs"])
    ppo_policy_loss(logps, before, batch["advantages"], AlgorithmConfig(), batch["loss_mask"])[0].backward()
    # The kept rows have 1, 2 and 4 tokens, 7 in all, at ratio 1.
    assert logps.grad.sum(1).tolist() == pytest.approx([-first / 7, -second * 2 / 7, 0.0, -last * 4 / 7])


def test_what_a_curator_reads(tmp_path):
    trainer, _ = trainer_of(tmp_path, MONITOR)
    trainer._session.curator.optional += ("logprobs", "prompt_keys", "response_keys", "advantages")
    seen = []
    trainer._session.curate = lambda rollouts: seen.append(rollouts) or curation(rollouts)
    asyncio.run(trainer.train())
    prompts = [key for batch in seen for key in batch.prompt_keys.tolist()[::4]]
    assert sorted(prompts) == sorted(response_keys([[n] * n for n in (1, 2, 3, 4)]).tolist())
    assert (len(set(seen[0].response_keys.tolist())), seen[0].groups.tolist()) == (8, [0] * 4 + [1] * 4)
    assert (seen[0].rewards[:4].tolist(), seen[0].lengths[:4].tolist()) == ([1, 1, 0, 0], [1, 2, 3, 4])
    assert (seen[0].answers[:4], seen[0].logprobs[:4].tolist()) == (["0", "1", "2", "0"], [0, -1, -2, -3])
    assert seen[0].donor_ok[:4].tolist() == [True, True, True, False]
    assert seen[0].advantages[:4].tolist() == pytest.approx([HALF, HALF, -HALF, -HALF])


@pytest.mark.parametrize("asynchronous", [False, True])
def test_resume_goes_on_with_the_curators_draws(tmp_path, asynchronous):
    def trained(folder, **changes):
        section = {"curator": {"type": "pf_ppo_br"}, "seed": 3}
        made, staged = trainer_of(tmp_path / folder, section, asynchronous=asynchronous, **changes)
        asyncio.run(made.train())
        return made._session.calls, staged

    _, expected = trained("whole")
    trained("half", **{"trainer.max_training_steps": 1})
    place = {"trainer.resume_mode": "from_path", "trainer.resume_path": tmp_path / "half" / "global_step_1"}
    calls, found = trained("half", **place)
    assert (calls, len(found)) == (2, 1)
    assert all(torch.equal(found[0][key], expected[1][key]) for key in ("sequences", "advantages"))


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("trainer.algorithm.advantage_estimator", "gae", "advantage_estimator=gae: .* set it to grpo"),
        ("trainer.algorithm.use_kl_in_reward", True, "use_kl_in_reward=true"),
        ("trainer.algorithm.advantage_batch_normalize", True, "advantage_batch_normalize=true"),
        ("trainer.algorithm.policy_loss_type", "cross_entropy", "policy_loss_type=cross_entropy: it reads no advanta"),
        ("trainer.critic.model.path", "x", "critic.model.path: expected none"),
        ("trainer.algorithm.dynamic_sampling.type", "replace", "dynamic_sampling.type=replace with fields"),
        ("trainer.ckpt_path", "s3://x", "ckpt_path=s3://x: expected a local folder"),
        ("generator.step_wise_trajectories", True, "step_wise_trajectories=true"),
        ("generator.n_samples_per_prompt", 1, "n_samples_per_prompt=1: expected at least 2"),
        # Where rows are dropped.
        ("trainer.algorithm.loss_reduction", "sequence_mean", "loss_reduction=sequence_mean, .* set it to token_mean"),
        ("trainer.algorithm.policy_loss_type", "kl_cov", "policy_loss_type=kl_cov, .*regular"),
        ("trainer.algorithm.use_kl_loss", True, "use_kl_loss or use_entropy_loss=true"),
    ],
)
def test_what_is_refused(tmp_path, setting, value, message):
    with pytest.raises(UnsupportedError, match=message):
        decided(tmp_path, DROP, MONITOR, **{setting: value})


def test_skyrls_command_hands_over(monkeypatch):
    from skyrl.train.entrypoints import main_base

    from geoalign.adapters.skyrl import trainers

    started = []
    monkeypatch.setattr(trainers, "initialize_ray", started.append)
    for name in ("validate_cfg", "ray", "_train"):
        monkeypatch.setattr(trainers, name, MagicMock())

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["main_base", "trainer.override_entrypoint=geoalign.adapters.skyrl", *words])
        main_base.main()

    with pytest.raises(UnsupportedError, match="Denoise requires hidden states"):
        run()
    with pytest.raises(ConfigError, match=r"geoalign\.curator\.geomtry: unknown key"):
        run("geoalign.curator.type=denoise", "geoalign.curator.geomtry=none")
    run("geoalign.curator.type=pods", "geoalign.curator.m=2", "trainer.algorithm.use_kl_loss=false", "trainer.seed=7")
    assert (started[0].geoalign, started[0].trainer.seed) == ({"curator": {"type": "pods", "m": 2}}, 7)
    trainers._train.remote.assert_called_once_with(started[0])


def test_the_example_of_the_docs_is_skyrls(monkeypatch):
    """Its settings by SkyRL's own configuration, its environment by SkyRL's own registry."""
    from skyrl.train.utils import validate_cfg
    from skyrl_gym.envs import registration

    from geoalign.adapters.skyrl import CuratedConfig, trainers

    page = (Path(__file__).parents[3] / "docs" / "skyrl.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    command = re.search(r"^python curated_gsm8k.py (.*?)^```", page.replace("\\\n", " "), re.DOTALL | re.MULTILINE)
    cfg = CuratedConfig.from_cli_overrides(shlex.split(command[1]))
    validate_cfg(cfg)
    settings, session, _ = trainers.curation_of(cfg)
    assert (session.name, settings.rollout_fields) == ("Denoise", {"answers": "answer"})

    names = {"__name__": "curated_gsm8k"}
    exec(code, names)
    monkeypatch.setattr(registration, "registry", dict(registration.registry))
    monkeypatch.setitem(names, "CuratedExp", MagicMock())
    names["train"]._function(cfg)
    environment = registration.make("gsm8k", extras={"reward_spec": {"ground_truth": "18"}})
    assert environment.step("So it is #### 18")["reward"] == 1
    assert environment.get_metrics() == {"answer": "18"}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_second_verifier_reads_rows_of_the_data_set(tmp_path, asynchronous, monkeypatch):
    asked = []

    def second(prompts, completions, answer, **columns):
        asked.extend(zip(prompts, completions, answer, columns["reward_spec"], strict=True))
        return [0.5] * len(prompts)

    monkeypatch.setitem(sys.modules, "judge_here", MagicMock(second=second))
    section = settings_with("judge_here:second")
    trainer, staged = trainer_of(tmp_path, section, asynchronous=asynchronous, **{"trainer.max_training_steps": 1})
    asyncio.run(trainer.train())
    assert len(asked) == 8
    for prompt, [completion], answer, spec in asked:
        number = int(prompt[0]["content"].removeprefix("prompt "))
        token, *others = map(int, completion["content"].split())
        # Response i of prompt p is the token 10 p + i, i + 1 times.
        assert token // 10 == number
        assert others == [token] * (token % 10)
        assert answer == spec["ground_truth"] == f"gold {number}"
    # All rows of a group have the reward 0.5 now.
    assert not staged[0]["advantages"].any()


class ShortPrompts:
    """A tokenizer by which every prompt has one token."""

    def apply_chat_template(self, messages, **options):
        return [0]


def test_skyrls_own_data_set_has_the_row_of_each_uid(tmp_path):
    from skyrl.train.dataset import PromptDataset

    from geoalign.adapters.skyrl.trainers import DatasetRows

    rows = [
        {"prompt": [{"role": "user", "content": f"{n} + 1?"}], "reward_spec": {"ground_truth": str(n + 1)}}
        for n in range(3)
    ]
    path = tmp_path / "data.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = DatasetRows(PromptDataset(str(path), ShortPrompts(), max_prompt_length=99, num_workers=1))
    assert len(found) == 3
    assert found[2] == rows[2]


def test_math_verify_is_refused_without_gold_answers(tmp_path, monkeypatch):
    """In the data set. Under a name of the user's own the environment's `get_metrics` may bring them."""
    # As where it is installed.
    monkeypatch.setitem(sys.modules, "math_verify", MagicMock(__spec__=object()))
    trainer_of(tmp_path, settings_with("math_verify"))
    trainer_of(tmp_path, {**settings_with("math_verify"), "rollout_fields": {"gold_answers": "truth"}})
    monkeypatch.setattr("geoalign.adapters.skyrl.trainers.GOLD", ("gone",))
    with pytest.raises(ConfigError, match=r"expected one in gone, got none; set geoalign\.rollout_fields\.gold"):
        trainer_of(tmp_path, settings_with("math_verify"))
