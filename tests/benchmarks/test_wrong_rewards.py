import json

import numpy as np
import pytest
import torch
from benchmarks.wrong_rewards import Labelled, by_prediction, layer_states, measure, read_labelled
from tiny_models import random_model
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks import wrong_rewards
from geoalign.lab.models.language_model import make_tokenizer


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def row(group="p", reward=1.0, correct=True, **more):
    return {"group": group, "prompt": f"ask {group}", "response": "ab", "reward": reward, "correct": correct, **more}


def planted(groups=40, size=8, *, wrong=0.25, checks=None):
    """Half of the responses are right, a quarter of the verdicts wrong; one direction of the states tells which."""
    generator = torch.Generator().manual_seed(0)
    correct = torch.arange(size).repeat(groups) % 2 == 0
    flips = torch.rand(groups * size, generator=generator) < wrong
    states = torch.randn(groups * size, 8, generator=generator)
    states[:, 0] += 2.0 * correct
    rows = len(correct)
    dump = Labelled(
        prompts=["p"] * rows,
        responses=[str(number) for number in range(rows)],
        groups=np.repeat(np.arange(groups), size),
        rewards=(correct ^ flips).double().numpy(),
        labels=correct.double().numpy(),
        answers=[None] * rows,
        checks=checks or [None] * rows,
    )
    return dump, states


def test_lists_of_responses(tmp_path):
    lists = {"query": "q", "response": ["x", "y"], "pred_score": [[3.5], [-1]], "score": [True, False]}
    lists["pred"] = ["4", ""]
    dump = read_labelled(written(tmp_path / "dump.jsonl", [lists, lists]))
    assert dump.groups.tolist() == [0, 0, 1, 1]
    assert dump.rewards.tolist() == [3.5, -1.0] * 2
    assert dump.answers == ["4", None] * 2


def test_states_by_layer_and_position(tmp_path):
    tokenizer = make_tokenizer("abcdefgh ", max_length=64)
    model = random_model(
        Qwen3ForCausalLM, Qwen3Config, tokenizer, num_hidden_layers=3, num_key_value_heads=2, head_dim=8
    ).eval()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    dump = read_labelled(written(tmp_path / "dump.jsonl", [row("a", response="abc"), row("b", response="h")]))
    file = tmp_path / "states.safetensors"
    views = layer_states(str(tmp_path / "model"), dump, file, 64, [1 / 3, 1.0])
    # No response marks an answer, so there is no state before one.
    assert set(views) == {f"layer {n}, {position}" for n in (1, 3) for position in ("predicting", "final", "mean")}
    ids = tokenizer("ask aabc", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        hidden = model.model(torch.tensor([ids]), output_hidden_states=True).hidden_states
    torch.testing.assert_close(views["layer 1, mean"][0], hidden[1][0, -3:].mean(0), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(views["layer 3, predicting"][0], hidden[3][0, -2], atol=1e-5, rtol=1e-4)
    again = layer_states("no such model", dump, file, 64, [1.0])
    assert all(torch.equal(again[name], view) for name, view in views.items())


def test_a_prediction_has_not_seen_its_group():
    dump, states = planted()
    first = dump.groups == 0
    other = np.where(first, 1 - dump.rewards, dump.rewards)
    before, after = (by_prediction(1.0, dump, rewards, states)[0] for rewards in (dump.rewards, other))
    assert before[first] == pytest.approx(after[first])
    assert np.abs(before - after)[~first].max() > 1e-3


def test_states_that_know_mend_the_order_and_noise_does_not():
    dump, states = planted()
    views = {"noise": torch.randn(states.shape, generator=torch.Generator().manual_seed(9)), "known": states}
    names = ("denoise", "denoise, all states", "denoise, permuted", "oracle")
    found = measure(dump, views, 0.5, curators=names)
    rows = {one["score"]: one for one in found["rows"]}
    assert {one["view"] for one in found["rows"]} == {"verdict: at least 0.5"}  # 0 and 1 are their own verdicts
    assert rows["denoise"]["states"] == ["known", "known"]
    assert rows["denoise"]["order"].estimate > rows["observed reward"]["order"].estimate + 0.1
    assert rows["denoise"]["gain"].low > 0
    assert rows["denoise, all states"]["gain"].low > 0
    permuted = rows["denoise, permuted"]["gain"]
    assert permuted.low <= 0 <= permuted.high + 1e-9
    halves = {one["score"]: one["halves"] for one in found["explored"]}["denoise"]
    assert max(halves["noise"]) < min(halves["known"])


def test_the_command_writes_its_figures(tmp_path, capsys):
    dump, states = planted(groups=6, size=4)
    views = {"layer 1, mean": states}
    wrong_rewards.save_file(views, tmp_path / "states.safetensors")
    values = zip(dump.groups.tolist(), dump.rewards.tolist(), dump.labels.tolist(), strict=True)
    path = written(tmp_path / "dump.jsonl", [row(*three) for three in values])
    more = ["--states", str(tmp_path / "states.safetensors"), "--batch-groups", "3", "--curator", "denoise"]
    wrong_rewards.main([str(path), *more, "--json", str(tmp_path / "found.json")])
    record = json.loads((tmp_path / "found.json").read_text())
    assert {one["batches"] for one in record["rows"] if one["score"] == "denoise"} == {"one", "3 prompts"}
    assert "| observed reward |" in capsys.readouterr().out
