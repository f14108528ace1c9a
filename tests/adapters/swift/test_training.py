"""Real trainings: ms-swift's own `rlhf_main` on a tiny model. Run by `make test-swift`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import fields, replace
from importlib.metadata import packages_distributions
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from geoalign.curators.geoalign import GeoAlign
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, UnsupportedError

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif("swift" not in packages_distributions(), reason="ms-swift is not installed (make test-swift)"),
]

if "swift" in packages_distributions():
    from first_ten_steps import engine_metrics
    from monitored import METRICS
    from swift.rl_core.advantage import compute_advantages
    from swift.rlhf_trainers.grpo_trainer import GRPOTrainer
    from swift_parts import arguments, prepare, table, train
    from trl_parts import (
        BATCH,
        Drawing,
        Scripted,
        by_hand,
        curation,
        drop_last_of_group,
        model,
        same_weights,
        second_half_from_first,
        weights_of,
    )

EVERYTHING = ("hidden", "lengths", "ids", "advantages", "prompt_keys")
OPTIONS = {
    "defaults": {},
    "dapo, two updates, a reference, two rewards": {
        "loss_type": "dapo", "num_iterations": 2, "beta": 0.1,
        "reward_funcs": ["digits", "length"], "reward_weights": [0.5, 2.0],
    },
    "micro-batches, rloo over the batch": {
        "steps_per_generation": 4, "gradient_accumulation_steps": 2,
        "advantage_estimator": "rloo", "scale_rewards": "batch", "kl_in_reward": "false",
    },
    "LoRA, long rows filtered, dynamic sampling": {
        "tuner_type": "lora", "overlong_filter": "true", "dynamic_sample": "true",
    },
}  # fmt: skip
STEPS = {"save_strategy": "steps", "save_steps": 1}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return prepare(tmp_path_factory.mktemp("swift"))


def advantages_of(trainer):
    return torch.tensor([advantage for _, _, advantage in trainer.entered])


def responses_of(trainer):
    return [response for _, response, _ in trainer.entered]


@pytest.mark.parametrize("name", OPTIONS)
def test_identity_is_bit_identical(inputs, tmp_path, name):
    plain = train(inputs, tmp_path / "plain", **OPTIONS[name])
    watcher = Scripted(curation, requires=EVERYTHING)
    curated = train(inputs, tmp_path / "curated", watcher, **OPTIONS[name])
    assert watcher.seen
    assert watcher.seen[0].hidden.shape == (len(watcher.seen[0]), 32)
    assert plain.entered == curated.entered
    assert same_weights(weights_of(plain), weights_of(curated))
    assert not same_weights(weights_of(curated), dict(model().named_parameters()))


def test_states_are_the_policys(inputs, tmp_path):
    watcher = Scripted(curation, requires=EVERYTHING)
    made = train(inputs, tmp_path, watcher, max_steps=1, learning_rate=0.0)
    batch, ids = made.inputs["grpo_batch"], made.inputs["model_inputs"]["input_ids"]
    mask = made.inputs["model_inputs"]["attention_mask"]
    with torch.no_grad():
        states = made.model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states[-1]
    last = torch.stack([row.nonzero().max() for row in batch.completion_mask])
    before = ids.shape[1] - batch.logits_to_keep + last - 1
    torch.testing.assert_close(watcher.seen[0].hidden, states[torch.arange(len(ids)), before], atol=1e-5, rtol=1e-5)
    assert watcher.seen[0].lengths.tolist() == batch.completion_mask.sum(1).tolist()


def test_replaced_rows_enter_the_loss_and_the_table_shows_what_was_generated(inputs, tmp_path):
    plain = train(inputs, tmp_path / "plain")
    watcher = Scripted(second_half_from_first)
    curated = train(inputs, tmp_path / "curated", watcher)
    generated, entered = responses_of(plain)[:8], responses_of(curated)[:8]
    assert entered == [generated[row] for row in (0, 1, 0, 1, 4, 5, 4, 5)]
    rewards = watcher.seen[0].rewards[[0, 1, 0, 1, 4, 5, 4, 5]]
    torch.testing.assert_close(advantages_of(curated)[:8], by_hand(rewards))
    columns = table(tmp_path / "curated")
    assert len({len(values) for values in columns.values()}) == 1
    shown = columns["completion"][:8]
    assert [text.replace("</s>", "") for text in generated] == [text.replace("</s>", "") for text in shown]
    assert columns["digits"][:8] == watcher.seen[0].rewards.tolist()
    assert columns["source"][:8] == [0, 1, 0, 1, 4, 5, 4, 5]
    first = curated.state.log_history[0]
    assert first["geoalign/replaced_rows"] == 4
    assert first["reward"] == pytest.approx(float(watcher.seen[0].rewards.mean()))
    assert first["geoalign/curated_reward"] == pytest.approx(float(rewards.mean()))
    assert not same_weights(weights_of(plain), weights_of(curated))


@pytest.mark.parametrize("loss_type", ["grpo", "dapo", "dr_grpo"])
def test_dropped_rows_leave_the_gradient_of_the_kept_ones(inputs, tmp_path, loss_type):
    watcher = Scripted(drop_last_of_group)
    made = train(inputs, tmp_path, watcher, max_steps=1, loss_type=loss_type)
    kept = torch.arange(8) % 4 != 3
    expected = by_hand(watcher.seen[0].rewards[kept], size=3)
    torch.testing.assert_close(advantages_of(made)[:8][kept], expected, atol=1e-5, rtol=1e-5)
    batch = made.inputs["grpo_batch"]
    part = {
        item.name: value[kept]
        for item in fields(batch)
        if isinstance(value := getattr(batch, item.name), torch.Tensor) and len(value.shape) and len(value) == 8
    }
    assert int(batch.num_items_in_batch) == int(part["completion_mask"].sum())
    rows = {name: value[kept] for name, value in made.inputs["model_inputs"].items() if torch.is_tensor(value)}
    whole = made.compute_loss(made.model, made.inputs)
    alone = GRPOTrainer.compute_loss(made, made.model, {"model_inputs": rows, "grpo_batch": replace(batch, **part)})
    parameters = [value for value in made.model.parameters() if value.requires_grad]
    gradients = (torch.autograd.grad(loss, parameters) for loss in (whole, alone))
    for first, second in zip(*gradients, strict=True):
        torch.testing.assert_close(first, second, atol=1e-6, rtol=1e-4)


def test_dropping_under_a_loss_that_cannot_leave_rows_out_is_refused(inputs, tmp_path):
    with pytest.raises(UnsupportedError, match="dropping rows with loss_type='fipo'"):
        train(inputs, tmp_path, Scripted(drop_last_of_group), loss_type="fipo")


def test_dropping_beside_a_supervised_loss_is_refused():
    from geoalign.adapters.swift.curate import CurationRound

    stand_in = SimpleNamespace(accelerator=SimpleNamespace(gather=None), chord_sft_iterator=iter([]))
    made = CurationRound(stand_in, CurationSession(GeoAlign(), seed=0), None, {}, "headline")
    made._assignment = SimpleNamespace(dropped=True, kept=None)
    with pytest.raises(UnsupportedError, match="GeoAlign drops rows under chord_sft_dataset"):
        made.leave_out([])


def test_denoise_acts(inputs, tmp_path):
    settings = tmp_path / "curator.yaml"
    settings.write_text("curator: {type: denoise, level: 0.01}\nlog_metrics: all")
    made = train(inputs, tmp_path / "denoise", settings=settings, **BATCH)
    acted = [entry["geoalign/states_used"] for entry in made.state.log_history if "loss" in entry]
    assert sum(acted) > 0
    plain = train(inputs, tmp_path / "plain", **BATCH)
    assert not same_weights(weights_of(plain), weights_of(made))


def test_a_curator_that_watches_changes_nothing_and_says_what_it_saw(inputs, tmp_path):
    plain = train(inputs, tmp_path / "plain", reward_funcs="has_digit", **BATCH)
    answers = {"answers": lambda rows: [row["completion"][:1] or None for row in rows]}
    settings = {"curator": {"type": "denoise", "level": 0.01}, "monitor": True, "log_metrics": "all"}
    changes = {"settings": settings, "rollout_fields": answers, "reward_funcs": "has_digit", **BATCH}
    watched = train(inputs, tmp_path / "watched", **changes)
    assert plain.entered == watched.entered
    assert same_weights(weights_of(plain), weights_of(watched))
    assert all(set(log) >= METRICS | engine_metrics("ms-swift") for log in watched.state.log_history[:2])
    one, other = table(tmp_path / "plain"), table(tmp_path / "watched")
    assert {name: other[name] for name in one} == one
    assert any(score == score for score in other["score"])


@pytest.mark.parametrize("name", ["broken", "slow_broken"])
def test_a_reward_function_that_raises_leaves_its_rows_unscored(inputs, tmp_path, name):
    watcher = Scripted(curation)
    made = train(inputs, tmp_path, watcher, reward_funcs=["digits", name], max_steps=1)
    assert watcher.seen[0].rewards.isnan().all()
    assert (advantages_of(made) == 0).all()
    assert made.state.log_history[0]["geoalign/failed_rewards"] == 8
    # Nothing to learn from, and nothing learnt.
    assert same_weights(weights_of(made), dict(model().named_parameters()))


def test_evaluation_raises_and_reward_models_stay_with_their_plug_ins_wrapped():
    from geoalign.adapters.swift.curate import guard_rewards

    def fails(completions=None, **columns):
        raise TimeoutError("no judge")

    policy, failed = torch.nn.Linear(1, 1), set()
    made = SimpleNamespace(model=policy, reward_funcs=[fails, policy], reward_model_plugins=[None, fails])
    guard_rewards(made, failed)
    assert made.reward_funcs[1] is policy
    assert made.reward_model_plugins[0] is None
    assert made.reward_model_plugins[1](inputs=[{}, {}], request_id=["a", "b"]) == [None, None]
    assert failed == {"a", "b"}
    policy.eval()
    with pytest.raises(TimeoutError):
        made.reward_funcs[0](["x"], request_id=["a"])


def test_the_formula_is_ms_swifts(inputs):
    from geoalign.adapters.grpo_trainer.scaled_advantages import scaled_advantages

    rewards = torch.rand(24, generator=torch.Generator().manual_seed(0))
    for estimator in ("grpo", "rloo", "reinforce_plus_plus"):
        for scale in ("group", "batch", "none"):
            options = {"scale_rewards": scale}
            expected, _ = compute_advantages(
                rewards[:, None], torch.ones(1), 4, advantage_estimator=estimator, **options
            )
            got = scaled_advantages(rewards, 4, estimator=estimator, **options)
            torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)


def test_evaluation_is_untouched(inputs, tmp_path):
    evaluated = {"val_dataset": inputs / "data.jsonl", "eval_strategy": "steps", "eval_steps": 1}
    evaluated |= {"per_device_eval_batch_size": 16, "max_steps": 1, "learning_rate": 0.0}
    plain = train(inputs, tmp_path / "plain", **evaluated)
    watcher = Scripted(second_half_from_first)
    curated = train(inputs, tmp_path / "curated", watcher, **evaluated)
    assert len(watcher.seen) == 1

    def rewards(trainer):
        return [entry["eval_reward"] for entry in trainer.state.log_history if "eval_reward" in entry]

    assert rewards(plain)
    assert rewards(plain) == rewards(curated)
    assert len({len(values) for values in table(tmp_path / "curated").values()}) == 1


def test_resume_reaches_the_weights_of_an_undisturbed_run(inputs, tmp_path):
    whole, rest = Drawing(), Drawing()
    straight = train(inputs, tmp_path / "straight", whole, **STEPS)
    folder = tmp_path / "straight" / "checkpoint-1"
    resumed = train(inputs, tmp_path / "resumed", rest, resume_from_checkpoint=folder, **STEPS)
    assert rest.calls == whole.calls == 2
    assert torch.equal(rest.memory, whole.memory)
    assert resumed._session.calls == 2
    assert resumed.entered == straight.entered[-len(resumed.entered) :]
    assert same_weights(weights_of(straight), weights_of(resumed))


def test_a_resume_without_the_curators_state(inputs, tmp_path):
    train(inputs, tmp_path / "first", **STEPS)
    folder = tmp_path / "first" / "checkpoint-1"
    fresh = Drawing()
    train(inputs, tmp_path / "model", fresh, resume_from_checkpoint=folder, resume_only_model="true", **STEPS)
    assert 0 < fresh.calls < 2


def test_the_command_with_a_plugin_file(inputs, tmp_path):
    (tmp_path / "curator.yaml").write_text("curator: {type: random, geoalign: {alpha: 0.5, min_scores: 4}}\n")
    parts = Path(__file__).parent
    (tmp_path / "curated.py").write_text(
        f"from geoalign.adapters.swift import install\ninstall({str(tmp_path / 'curator.yaml')!r})\n"
    )
    (tmp_path / "rewards.py").write_text(
        "from swift.rewards import orms\norms['length'] = lambda args=None: lambda completions, **_: "
        "[float(len(text)) for text in completions]\n"
    )
    line = arguments(inputs, tmp_path / "run", reward_funcs="length", max_steps=1)
    line += ["--external_plugins", str(tmp_path / "curated.py"), str(tmp_path / "rewards.py")]
    with socket.socket() as free:  # this process listens on its own
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [str(Path(sys.executable).with_name("swift")), "rlhf", *line]
    options = {"env": {**os.environ, "MASTER_PORT": port}, "capture_output": True, "text": True, "cwd": parts}
    done = subprocess.run(command, check=False, **options)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "'geoalign/changed_share'" in done.stdout + done.stderr


def test_donors_on_the_other_process(inputs, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command += [str(Path(__file__).with_name("swift_two_processes.py")), str(inputs), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in (0, 1))
    # Both steps' rows of process 1 are those of process 0, under the same advantages; rank 0 alone decided.
    assert first["entered"] == second["entered"]
    assert len(first["entered"]) == 4
    assert (len(first["rewards"]), len(second["rewards"])) == (2, 0)


def test_a_second_verifier_reads_columns_and_the_response(inputs, tmp_path, monkeypatch):
    asked = []

    def second(prompts, completions, answer, gold, **columns):
        asked.extend(zip(prompts, completions, answer, gold, strict=True))
        return [0.5] * len(prompts)

    monkeypatch.setitem(sys.modules, "judge_here", SimpleNamespace(second=second))
    settings = {
        "curator": {"type": "appeals", "budget": 8, "curator": {"type": "denoise", "geometry": "none"}},
        "second_verifier": "judge_here:second",
        "rollout_fields": {"gold_answers": "gold"},
    }
    made = train(inputs, tmp_path, settings=settings, max_steps=1)
    assert len(asked) == 8
    entered = {response.replace("</s>", "") for response in responses_of(made)}
    for prompt, completion, answer, gold in asked:
        assert prompt[-1] == {"role": "user", "content": f"{gold}+{int(gold) + 1}="}
        assert answer == gold
        assert completion.replace("</s>", "") in entered
    # All rows have the reward 0.5 now.
    assert not advantages_of(made).any()


def test_math_verify_is_refused_without_gold_answers(inputs, tmp_path, monkeypatch):
    # As where it is installed: no response has a box, so there is nothing for it to compare.
    monkeypatch.setitem(sys.modules, "math_verify", SimpleNamespace(__spec__=object()))
    settings = {
        "curator": {"type": "appeals", "curator": {"type": "denoise", "geometry": "none"}},
        "second_verifier": "math_verify",
    }
    with pytest.raises(ConfigError, match="expected one in answer or solution, got none; set rollout_fields with gold"):
        train(inputs, tmp_path / "without", settings=settings, max_steps=1)
    settings["rollout_fields"] = {"gold_answers": "gold"}
    # Beside scores, as those of `digits`, it would say nothing.
    made = train(inputs, tmp_path / "with", settings=settings, max_steps=1, reward_funcs="has_digit")
    # Every response was refused, and has the reward 0.
    assert not advantages_of(made).any()
