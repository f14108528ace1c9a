"""DAPO-Math-17k for other engines: the prompts and verdicts of `geoalign train`, from one command."""

import json
import re
import sys
from dataclasses import replace

import pytest
import torch
from datasets import load_dataset
from pyarrow import parquet
from recipe import RECIPES, load

from geoalign import Denoise, GeoAlign
from geoalign.adapters.decision import decide
from geoalign.curators.session import CurationSession
from geoalign.lab.data.settings import MATH_SYSTEM_PROMPT
from geoalign.testing.synthetic import synthetic_rollouts

WRAPPED = "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
WRAPPED += (
    "$Answer (without quotes) where $Answer is the answer to the problem.\n\n{}\n\nRemember to put your answer on"
)
WRAPPED += ' its own line after "Answer:".'


@pytest.fixture(scope="module")
def recipe():
    return load("dapo_math")


def messages(problem):
    return [{"role": "system", "content": MATH_SYSTEM_PROMPT}, {"role": "user", "content": problem}]


@pytest.mark.parametrize("engine", ["trl", "verl", "swift"])
def test_rows_have_the_papers_prompt_in_order(recipe, engine, tmp_path, monkeypatch, capsys):
    rows = [
        {"prompt": [{"role": "user", "content": WRAPPED.format(text)}], "reward_model": {"ground_truth": str(answer)}}
        for answer, text in enumerate(["Zero?", "One?", "Two?"])
    ]
    (tmp_path / "dapo.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "aime.jsonl").write_text(json.dumps({"problem": "Two hundred and four?", "answer": 204}))
    sources = ["--set", f"task.train={tmp_path / 'dapo.jsonl'}", "--set"]
    sources.append(f"task.evaluation={{aime24: {tmp_path / 'aime.jsonl'}}}")
    monkeypatch.setattr(sys, "argv", ["dapo_math.py", engine, str(tmp_path / "out"), *sources])
    recipe.main()
    assert "another instruction text was taken off 3 problems" in capsys.readouterr().out
    if engine == "swift":
        found = [json.loads(line) for line in (tmp_path / "out" / "train.jsonl").read_text().splitlines()]
    elif engine == "trl":  # as recipes/trl_grpo.py reads the folder
        found = list(load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))["train"])
    else:
        found = parquet.read_table(tmp_path / "out" / "train.parquet").to_pylist()
    expected = [messages("Zero?"), messages("One?"), messages("Two?")]
    if engine == "verl":
        assert [row["prompt"] for row in found] == expected
        assert [row["reward_model"]["ground_truth"] for row in found] == ["0", "1", "2"]
        val = parquet.read_table(tmp_path / "out" / "val.parquet").to_pylist()
        # AIME 2024 is answered eight times in an evaluation of configs/full.
        assert [row["prompt"] for row in val] == [messages("Two hundred and four?")] * 8
        assert {row["data_source"] for row in found + val} == {"dapo_math_17k", "aime24"}
    else:
        prompt, answer = ("prompt", "answer") if engine == "trl" else ("messages", "solution")
        assert found == [{prompt: text, answer: str(number)} for number, text in enumerate(expected)]


def verdicts(seed):
    """A batch of verdicts with answers, as `denoise` reads it."""
    rollouts = synthetic_rollouts(12, 8, 8, seed=seed).rollouts
    generator = torch.Generator().manual_seed(seed)
    answers = torch.randint(0, 3, (len(rollouts),), generator=generator)
    flipped = torch.rand(len(rollouts), generator=generator) < 0.2
    return replace(rollouts, rewards=((answers == 0) ^ flipped).float(), answers=[str(int(each)) for each in answers])


def test_the_first_check_names_metrics_that_there_are():
    page = (RECIPES.parent / "docs" / "first_ten_steps.md").read_text()
    named = set(re.findall(r"`geoalign/([a-z_]+)`", page))
    made = set()
    for curator, batch in [
        (GeoAlign(), lambda seed: synthetic_rollouts(12, 4, 8, seed=seed).rollouts),
        (Denoise(unidentified="modelled"), verdicts),
    ]:
        session = CurationSession(curator, seed=0)
        for seed in range(2):
            made |= set(decide(session, batch(seed)).metrics)
    assert len(named) >= 10
    # Of the adapters of TRL and ms-swift.
    assert named - made == {"hidden_seconds"}


def test_every_scorer_takes_the_last_box_alone(recipe):
    responses = ["So \\boxed{3}, no: \\boxed{034}.", "Answer: 34", "\\boxed{35}"]
    chats = [[{"role": "assistant", "content": text}] for text in responses]
    assert recipe.verified(chats, answer=["34"] * 3, prompts=[]) == [1.0, 0.0, 0.0]
    # As verl calls it.
    found = [recipe.compute_score("x", text, "34", extra_info={}, reward_router_address=None) for text in responses]
    assert [(each["score"], each["answer"]) for each in found] == [(1.0, "034"), (0.0, ""), (0.0, "35")]
