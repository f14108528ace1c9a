"""`geoalign bench --rollouts`: dumps with labels, states by layer and position, what curators make of wrong rewards."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import call
from tiny_models import random_model
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from geoalign.errors import ConfigError, InputError
from geoalign.hidden import HIDDEN_POSITIONS
from geoalign.lab.bench import layer_states as layer_states_module
from geoalign.lab.bench.judging import by_curator, by_prediction, by_score
from geoalign.lab.bench.labelled import LabelledRollouts, parse_roles, read_labelled
from geoalign.lab.bench.layer_states import group_states, layer_states
from geoalign.lab.bench.wrong_rewards import CONSENSUS, ROLLOUT_CURATORS, measure_wrong_rewards
from geoalign.lab.models.models import make_tokenizer


def written(path: Path, rows: list[dict]) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def row(group="p", reward=1.0, correct=True, **more):
    return {"group": group, "prompt": f"ask {group}", "response": "ab", "reward": reward, "correct": correct, **more}


def planted(groups=40, size=8, *, wrong=0.25, seed=0) -> tuple[LabelledRollouts, torch.Tensor]:
    """Half of the responses are right, a quarter of the verdicts wrong; one direction of the states tells which."""
    generator = torch.Generator().manual_seed(seed)
    correct = torch.arange(size).repeat(groups) % 2 == 0
    flips = torch.rand(groups * size, generator=generator) < wrong
    states = torch.randn(groups * size, 8, generator=generator)
    states[:, 0] += 2.0 * correct
    dump = LabelledRollouts(
        prompts=["p"] * len(correct),
        responses=[str(number) for number in range(len(correct))],
        groups=np.repeat(np.arange(groups), size),
        rewards=(correct ^ flips).double().numpy(),
        correct=correct.numpy(),
        answers=None,
        checks=None,
    )
    return dump, states


# Reading.


def test_a_rollout_a_row(tmp_path):
    rows = [row("b", 0.4, True, passed="10"), row("a", 1, 0, passed="11"), row("b", 0, False, passed="00")]
    dump = read_labelled(written(tmp_path / "dump.jsonl.gz", rows))
    assert dump.groups.tolist() == [0, 0, 1]  # group after group, in the order of the file
    assert dump.rewards.tolist() == [0.4, 0.0, 1.0]
    assert dump.correct.tolist() == [True, False, False]
    assert dump.checks == ["10", "00", "11"]
    assert dump.answers is None
    assert dump.mixed == [0]


def test_lists_of_responses(tmp_path):
    lists = {
        "query": "q",
        "response": ["x", "y"],
        "pred_score": [[3.5], [-1]],
        "score": [True, False],
        "pred": ["4", ""],
    }
    dump = read_labelled(written(tmp_path / "dump.jsonl", [lists, lists]))
    assert dump.groups.tolist() == [0, 0, 1, 1]
    assert dump.rewards.tolist() == [3.5, -1.0] * 2
    assert dump.answers == ["4", None] * 2


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (row(correct="yes"), r"line 2: correct: expected true or false, got 'yes'"),
        (row(reward=None), r"line 2: reward: expected a number, got None"),
        (row(reward=math.nan), r"line 2: "),
        ({"prompt": "a", "reward": 1, "correct": True}, r"line 2: response: expected a text, got None"),
        ({"prompt": "a", "response": ["b"], "rewards": [1, 2], "correct": [True]}, "reward: expected a list of 1 as"),
    ],
)
def test_bad_rows_are_named(tmp_path, bad, said):
    with pytest.raises(InputError, match=said):
        read_labelled(written(tmp_path / "dump.jsonl", [row(), bad]))


def test_fields_by_other_names(tmp_path):
    dump = read_labelled(written(tmp_path / "dump.jsonl", [row(gold=False)]), parse_roles(["correct=gold"]))
    assert dump.correct.tolist() == [False]
    with pytest.raises(ConfigError, match="--field: expected ROLE=NAME, ROLE one of prompt"):
        parse_roles(["label=gold"])


# States.


def tiny(kind, config):
    tokenizer = make_tokenizer("abcdefgh ", max_length=64)
    values = {"num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 3, "initializer_range": 0.5}
    return random_model(kind, config, tokenizer, **values).eval()


@pytest.mark.parametrize(("kind", "config"), [(Qwen3ForCausalLM, Qwen3Config), (LlamaForCausalLM, LlamaConfig)])
@pytest.mark.parametrize("prompt", [[3, 4, 5, 6], [3]])
def test_reading_a_prompt_once_gives_the_states_of_each_row_alone(kind, config, prompt):
    model = tiny(kind, config)
    responses = [[7, 8, 9], [4], [7, 8, 9], [9, 3, 3, 3, 5]]
    answers = [1, -1, 1, 0]
    together = group_states(model, prompt, responses, answers, [0, 2, 3])
    assert together.shape == (4, 3, 4, 16)
    for states, response, answer in zip(together, responses, answers, strict=True):
        with torch.no_grad():
            hidden = model.model(torch.tensor([prompt + response]), output_hidden_states=True).hidden_states
        for layer, found in zip([0, 2, 3], states, strict=True):
            alone = hidden[layer][0]
            before = len(prompt) + answer - 1 if answer >= 0 else -2
            wanted = [alone[-2], alone[-1], alone[len(prompt) :].mean(0), alone[before]]
            for position, state, expected in zip(HIDDEN_POSITIONS, found, wanted, strict=True):
                assert state == pytest.approx(expected.numpy(), abs=1e-4), position


@pytest.fixture
def model_folder(tmp_path) -> Path:
    folder = tmp_path / "model"
    tiny(Qwen3ForCausalLM, Qwen3Config).save_pretrained(folder)
    make_tokenizer("abcdefgh ", max_length=64).save_pretrained(folder)
    return folder


def small_dump(tmp_path) -> LabelledRollouts:
    rows = [
        row(group, reward, correct, response=text)
        for group in "abcd"
        for reward, correct, text in (
            (1.0, True, "abab"),
            (0.0, False, "bh"),
            (0.0, True, ""),
            (1.0, False, "hhhhhhhhhhhh"),
        )
    ]
    return read_labelled(written(tmp_path / "dump.jsonl", rows))


def test_states_are_resumed_after_a_stop(tmp_path, model_folder, monkeypatch):
    dump, file = small_dump(tmp_path), tmp_path / "states.npy"

    def states(**options):
        found = layer_states(str(model_folder), dump, file, layers=[1, 3], max_tokens=64, **options)
        return {name: view.numpy().copy() for name, view in found.views().items()}

    whole = states()
    # No response marks an answer, so there is no state before one.
    assert set(whole) == {(layer, position) for layer in (1, 3) for position in ("predicting", "final", "mean")}
    for path in tmp_path.glob("states.npy*"):
        path.unlink()

    def stop(done):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        states(progress=stop)
    calls = []
    real = layer_states_module.group_states
    monkeypatch.setattr(layer_states_module, "group_states", lambda *given: calls.append(1) or real(*given))
    resumed = states()
    assert len(calls) == 2  # of four groups two were there
    assert all(np.array_equal(resumed[name], whole[name]) for name in whole)
    states()
    assert len(calls) == 2
    layer_states(str(model_folder), dump, file, layers=[2], max_tokens=64)  # other layers: from the start
    assert len(calls) == 6


def test_another_file_is_never_written_over(tmp_path, model_folder):
    (tmp_path / "thesis.npy").write_text("mine")
    with pytest.raises(ConfigError, match=r"--states: expected a new file or one of this command, got .*thesis\.npy"):
        layer_states(str(model_folder), small_dump(tmp_path), tmp_path / "thesis.npy", layers=None, max_tokens=64)
    assert (tmp_path / "thesis.npy").read_text() == "mine"


def test_long_rows_are_cut_and_counted(tmp_path, model_folder):
    dump = small_dump(tmp_path)
    found = layer_states(str(model_folder), dump, tmp_path / "states.npy", layers=None, max_tokens=12)
    # "ask a": 5 tokens, of which 6 may stay; 12 - 5 = 7 for the response, and one of four has 12.
    assert found.cut_rows == 4
    with pytest.raises(ConfigError, match=r"--layers: hidden_layer: expected at most 3, the model's depth, got 9"):
        layer_states(str(model_folder), dump, tmp_path / "states.npy", layers=[9], max_tokens=12)
    with pytest.raises(ConfigError, match="--model: expected a causal language model"):
        layer_states(str(tmp_path), dump, tmp_path / "states.npy", layers=None, max_tokens=12)


# Judging.


def test_a_score_is_an_advantage_without_flags():
    judged = by_score(np.array([1.0, 3.0, 5.0, 5.0]), np.array([0, 0, 1, 1]))
    # Deviation of (1, 3) with one degree of freedom less: sqrt(2). Equal scores say nothing.
    assert judged.advantages == pytest.approx([-1 / math.sqrt(2), 1 / math.sqrt(2), 0, 0], abs=1e-5)
    assert not judged.flagged.any()


def test_a_share_of_nothing_predicted_is_the_reward():
    dump, states = planted()
    only = by_prediction(states, dump.rewards, dump.groups, share=0.0)
    assert only.advantages == pytest.approx(by_score(dump.rewards, dump.groups).advantages, abs=1e-4)


def test_a_prediction_has_not_seen_its_group():
    dump, states = planted()
    first = dump.groups == 0
    other = np.where(first, 1 - dump.rewards, dump.rewards)
    before, after = (by_prediction(states, rewards, dump.groups, share=1.0) for rewards in (dump.rewards, other))
    assert before.advantages[first] == pytest.approx(after.advantages[first])
    assert np.abs(before.advantages - after.advantages)[~first].max() > 1e-3


def test_replaced_rows_are_trained_with_nothing():
    dump, _ = planted(groups=1, size=4, wrong=0.0)
    # Labels 1 0 1 0; the second reward is wrong. The oracle puts another row with its label's reward in its place.
    rewards = np.array([1.0, 1.0, 1.0, 0.0])
    judged = by_curator({"type": "oracle"}, dump, rewards, None, states=0, batch_groups=None)
    assert judged.flagged.tolist() == [False, True, False, False]
    assert judged.advantages[1] == 0


def test_batches_are_seen_in_order():
    dump, states = planted()
    rewards = dump.rewards
    given = {"states": 1, "batch_groups": 10}
    whole = by_curator({"type": "denoise"}, dump, rewards, states, **given)
    first = dump.groups < 10
    part = LabelledRollouts(
        [p for p, f in zip(dump.prompts, first, strict=True) if f],
        [r for r, f in zip(dump.responses, first, strict=True) if f],
        dump.groups[first],
        rewards[first],
        dump.correct[first],
        None,
        None,
    )
    alone = by_curator({"type": "denoise"}, part, rewards[first], states[torch.from_numpy(first)], **given)
    assert whole.advantages[first] == pytest.approx(alone.advantages)  # later batches change nothing


def test_states_that_know_mend_the_order_and_noise_does_not():
    dump, states = planted()
    noise = torch.randn(states.shape, generator=torch.Generator().manual_seed(9))
    views = {(1, "mean"): noise, (2, "mean"): states}
    found = measure_wrong_rewards(
        dump,
        views,
        threshold=0.5,
        curators={
            name: ROLLOUT_CURATORS[name] for name in ("denoise", "denoise, all states", "denoise, permuted", "oracle")
        },
    )
    rows = {one.score: one for one in found.rows}
    assert {one.view for one in found.rows} == {"verdict: at least 0.5"}  # rewards of 0 and 1 are their own verdicts
    assert rows["denoise"].states == ("layer 2, mean", "layer 2, mean")
    assert rows["denoise"].order.estimate > rows["observed reward"].order.estimate + 0.1
    assert rows["denoise"].gain.low > 0
    assert rows["denoise, all states"].gain.low > 0
    assert rows["denoise"].auroc.low > 0.7
    assert rows["denoise"].precision.estimate > 0.5
    assert rows["denoise, permuted"].gain.low <= 0 <= rows["denoise, permuted"].gain.high + 1e-9
    assert rows["oracle"].recall.estimate == 1
    assert rows["oracle"].auroc.estimate == 1
    explored = {one.states: one.halves for one in found.explored if one.score == "denoise"}
    assert max(explored["layer 1, mean"]) < min(explored["layer 2, mean"])


def test_each_half_takes_what_was_best_on_the_other():
    dump, states = planted(groups=120)
    # One view knows the first, third ... prompt, the other the rest: on its own half it is best, on the other useless.
    mine = torch.from_numpy(dump.groups % 2 == 0)[:, None]
    noise = torch.randn(states.shape, generator=torch.Generator().manual_seed(9))
    views = {(1, "mean"): torch.where(mine, states, noise), (2, "mean"): torch.where(mine, noise, states)}
    found = measure_wrong_rewards(dump, views, threshold=0.5, curators={"denoise": ROLLOUT_CURATORS["denoise"]})
    [chosen] = [one for one in found.rows if one.score == "denoise"]
    explored = {one.states: one.halves for one in found.explored}
    assert explored["layer 1, mean"][0] > explored["layer 2, mean"][0]
    assert chosen.states == ("layer 2, mean", "layer 1, mean")
    assert chosen.halves == pytest.approx((explored["layer 2, mean"][0], explored["layer 1, mean"][1]))


def test_consensus_counts_equal_outcomes():
    dump, _ = planted(groups=2, size=4, wrong=0.0)
    # Labels 1 0 1 0. Two rows pass "11" (2 x 2 = 4 each), one "10" (1 x 1), one "00" (0): all right ones stand above.
    checks = ["11", "10", "11", "00"] * 2
    dump = LabelledRollouts(dump.prompts, dump.responses, dump.groups, dump.rewards, dump.correct, None, checks)
    found = measure_wrong_rewards(dump, {}, threshold=0.5, curators={"denoise": {"type": "denoise"}})
    rows = {one.score: one.order.estimate for one in found.rows}
    assert rows[CONSENSUS] == 1
    assert rows["equal outcomes"] == 1
    assert [(one.score, one.reason) for one in found.skipped] == [("denoise", "no hidden states")]


def test_a_curator_that_cannot_take_the_rewards_is_left_out_with_the_reason():
    dump, states = planted()
    dump = LabelledRollouts(dump.prompts, dump.responses, dump.groups, dump.rewards * 0.9, dump.correct, None, None)
    names = ("nearest centroid", "majority vote", "oracle")
    found = measure_wrong_rewards(
        dump, {(1, "mean"): states}, threshold=0.5, curators={name: ROLLOUT_CURATORS[name] for name in names}
    )
    reasons = {(one.view, one.score): one.reason for one in found.skipped}
    assert "expected binary rewards" in reasons["as given", "nearest centroid"]
    assert "answers" in reasons["as given", "majority vote"]
    assert ("as given", "oracle") in reasons
    assert ("verdict: at least 0.5", "oracle") not in reasons


def test_a_dump_without_mixed_prompts_is_refused():
    dump, _ = planted(groups=1)
    with pytest.raises(InputError, match="correct: expected two prompts with right and wrong responses, got 1"):
        measure_wrong_rewards(dump, {}, threshold=0.5)


# The command.


def test_the_command_writes_its_figures(tmp_path, monkeypatch, capsys, model_folder):
    small_dump(tmp_path)
    out, states = tmp_path / "out.json", tmp_path / "states.npy"
    arguments = ["bench", "--rollouts", tmp_path / "dump.jsonl", "--model", model_folder, "--layers", "1,3"]
    arguments += ["--states", states, "--json", out, "--curator", "denoise", "--curator", "pair_count"]
    assert call(monkeypatch, *arguments) == 0
    said = capsys.readouterr().out
    assert "mixed prompts 4" in said
    assert "observed reward" in said
    record = json.loads(out.read_text())
    assert record["rollouts"]["right_with_wrong_verdict"] == 0.5
    assert record["model"]["layers"] == [1, 3]
    assert {entry["score"] for entry in record["rows"]} == {
        "observed reward",
        "prediction alone",
        "reward and prediction",
        "denoise",
        "pair_count",
    }
    [observed] = [entry for entry in record["rows"] if entry["score"] == "observed reward"]
    # In every group right 1, 0 and wrong 0, 1: one pair above, one below, two ties.
    assert observed["order"] == [0.5, 0.5, 0.5]
    assert str(tmp_path) not in out.read_text()
    assert states.is_file()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--detection"], "--rollouts: expected without --detection"),
        (["--layers", "one"], "--layers: expected numbers"),
        (["--positions", "mean,last"], "--positions: expected some of predicting, final, mean, anchor"),
        (["--curator", "nobody"], "--curator: expected JSON or one of"),
        (["--field", "label=gold"], "--field: expected ROLE=NAME"),
    ],
)
def test_the_command_refuses(tmp_path, monkeypatch, capsys, options, said):
    small_dump(tmp_path)
    assert call(monkeypatch, "bench", "--rollouts", tmp_path / "dump.jsonl", *options) == 2
    assert said in capsys.readouterr().err


def test_real_rollouts(shared_data):
    dump = read_labelled(shared_data / "rollouts_codet" / "humaneval_codegen16b.jsonl")
    assert (len(dump.groups), int(dump.groups.max()) + 1, len(dump.mixed)) == (1584, 99, 55)
    found = measure_wrong_rewards(dump, {}, threshold=0.5, curators={"grpo": {"type": "grpo"}})
    orders = {(one.view, one.score): one.order.estimate for one in found.rows}
    assert orders["as given", "grpo"] == orders["as given", "observed reward"] == pytest.approx(0.768, abs=5e-4)
    assert orders["as given", CONSENSUS] == pytest.approx(0.798, abs=5e-4)
    other = read_labelled(shared_data / "rollouts_qwen_rm_maj" / "math_cot_100.jsonl")
    assert (len(other.groups), len(other.mixed)) == (800, 10)
    assert other.answers is not None
