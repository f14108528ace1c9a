"""Whole runs scored by a ready reward model, by one behind a server, and by one that goes away in the middle."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file
from tiny_models import saved_classifier
from transformers import AutoTokenizer
from vllm_server import VLLMServer

from geoalign.errors import UnscoredError
from geoalign.lab.rewards.reward_model import RewardModelScorer


def lines(path: Path, stage: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in found if line["stage"] == stage]


class Failing:
    """The sum of a response's digits; in one call of a training batch, `missing` of every four are not scored."""

    binary = False

    def __init__(self, fails_at: int | None, missing: int = 3) -> None:
        self.counters = {"scored": 0, "too_long": 0, "unreachable": 0}
        self.fails_at, self.missing, self.calls = fails_at, missing, 0

    def score(self, responses: Any, answers: Any, *, prompts: Any = None) -> list[float]:
        rewards = [float(sum(int(sign) for sign in text if sign.isdecimal())) for text in responses]
        if len(responses) != 16:
            return rewards  # an evaluation
        self.calls += 1
        if self.calls - 1 == self.fails_at:
            self.counters["unreachable"] += 4 * self.missing
            rewards = [math.nan if row % 4 < self.missing else reward for row, reward in enumerate(rewards)]
        return rewards


@pytest.fixture
def score_by(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts a source in the place of the run's."""

    def put(source: Any) -> None:
        @contextmanager
        def opened(run: Any) -> Iterator[Any]:
            yield source

        monkeypatch.setattr("geoalign.lab.train.train.reward_source", opened)
        monkeypatch.setattr("geoalign.lab.train.plan.binary_reward", lambda plan: False)

    return put


def test_a_run_whose_rewards_fail_stops_and_goes_on_as_if_nothing_had_been(tiny, train_here, score_by, tmp_path):
    settings = tiny(reward={"flip": 0.0})
    score_by(Failing(None))
    train_here(settings, tmp_path / "undisturbed")
    score_by(Failing(1))  # in the second generation, after a checkpoint
    with pytest.raises(UnscoredError, match=r"for 12 of 16 responses: unreachable 12\. Once the cause .* --resume"):
        train_here(settings, tmp_path / "stopped")
    score_by(Failing(None))
    train_here(settings, tmp_path / "stopped", resume=True)
    weights, expected = (
        load_file(tmp_path / name / "checkpoints/final/model.safetensors") for name in ("stopped", "undisturbed")
    )
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    told, wanted = (
        [(line["step"], line.get("reward"), line.get("num_tokens")) for line in lines(path / "metrics.jsonl", "rl")]
        for path in (tmp_path / "stopped", tmp_path / "undisturbed")
    )
    assert told == wanted


def test_below_the_limit_a_run_goes_on_without_the_unscored(tiny, train_here, score_by, tmp_path):
    score_by(Failing(1, missing=2))  # a half; the limit is passed by more than that
    train_here(tiny(reward={"flip": 0.0}), tmp_path / "run")
    counts = [line["reward/unreachable"] for line in lines(tmp_path / "run/metrics.jsonl", "rl") if "reward" in line]
    assert 8.0 in counts
    rows = pq.read_table(tmp_path / "run/rollouts/step-000002.parquet").to_pydict()
    assert rows["reward"].count(None) == 8


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random reward model that reads the task's characters."""
    return saved_classifier(tmp_path_factory.mktemp("classifier"), "0123456789+-*=;?\\boxed{} ", max_length=128)


def test_any_task_may_be_scored_by_a_ready_model_here_or_behind_a_server(tiny, train_here, classifier, tmp_path):
    here = tiny(reward={"flip": 0.0, "model": {"path": str(classifier)}})
    train_here(here, tmp_path / "here")
    with RewardModelScorer.load(classifier) as scorer:
        tokenizer = AutoTokenizer.from_pretrained(classifier)

        def raw_output(text: str) -> float:
            return scorer._outputs([tokenizer(text, add_special_tokens=False)["input_ids"]])[0]

        server = VLLMServer(raw_output, longest=128)
        model = {"url": server.url, "tokenizer": str(classifier), "patience": 5}
        there = tiny(reward={"flip": 0.0, "model": model})
        train_here(there, tmp_path / "there")
        server.stop()
    for name in ("here", "there"):
        found = lines(tmp_path / name / "evaluation.jsonl", "after_rl")
        assert found
        assert all(line["accuracy"] is None and math.isfinite(line["reward"]) for line in found)
        assert not (tmp_path / name / "checkpoints/reward_model").exists()
    rewards = [
        pq.read_table(tmp_path / name / "rollouts/step-000000.parquet")["reward"].to_pylist()
        for name in ("here", "there")
    ]
    assert rewards[0] == pytest.approx(rewards[1], abs=1e-5)
    assert len(set(rewards[0])) > 2
