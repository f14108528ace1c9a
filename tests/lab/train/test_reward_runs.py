"""Whole runs by what rewards them: corrupted rewards, a function of the user's, a reward model, one that goes away."""

import io
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rich.console import Console
from run_files import lines, rollouts, same_weights
from tiny_models import saved_classifier
from transformers import AutoTokenizer
from vllm_server import VLLMServer

from geoalign.errors import ConfigError, InputError, UnscoredError
from geoalign.lab.rewards.chat_model import Written
from geoalign.lab.rewards.corruption import Draws
from geoalign.lab.rewards.reward_model import RewardModelScorer
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.train.plan import make_plan
from geoalign.lab.train.read_settings import parse_run_config

FUNCTIONS = """
from geoalign.answers.messages import response_text

def even(prompts, completions, answer, problem_id, **columns):
    assert columns["trainer_state"].global_step in (0, 2)
    return [float(len(response_text(each)) % 2) for each in completions]

def mostly_unscored(completions, **columns):
    return [1.0] + [None] * (len(completions) - 1)

def too_few(completions, **columns):
    return [1.0]
"""
# A verifier of the user's own, which notes how much it is asked.
SECOND = """import json, sys
rows = [json.loads(line) for line in sys.stdin]
open(sys.argv[1], "a").write(f"{len(rows)}\\n")
for row in rows:
    assert row["response"] is not None and row["answer"]
    print(json.dumps({"reward": 0.25}))
"""


@pytest.fixture
def functions(tmp_path):
    path = tmp_path / "functions.py"
    path.write_text(FUNCTIONS)
    return path


def test_extremes_and_what_the_metrics_say(continuous, tiny, train_here, tmp_path):
    root = tmp_path / "run"
    settings = tiny(
        reward={"flip": 0.0, "extremes": 0.5, "jitter": 0.0},
        evaluation={"pass_samples": 3},
        grpo={"beta": 0.0, "learning_rate": 0.01, "warmup_steps": 0},
    )
    summary = train_here(settings, root)
    rows = rollouts(root)
    assert len(rows) == 32
    assert any(row["corrupted"] for row in rows)
    for start in range(0, 32, 4):
        group = rows[start : start + 4]
        clean = [row["true_reward"] for row in group]
        prompt = group[0]["prompt"].rstrip("=")
        keys = {"seed": 0, "step": group[0]["step"], "prompt_ids": [f"train:{prompt}"] * 4}
        mask = Draws(**keys, samples=[0, 1, 2, 3]).below(0.5)
        for row, drawn in zip(group, mask, strict=True):
            expected = max(clean) if row["true_reward"] < sum(clean) / 4 else min(clean)
            assert row["reward"] == (expected if drawn else row["true_reward"])
            assert row["corrupted"] == (row["reward"] != row["true_reward"])
    # The evaluation knows the clean reward and the gold utility, and no accuracy.
    (after,) = lines(root, "after_rl", "evaluation.jsonl")
    assert (after["accuracy"], after["samples"], after["count"]) == (None, 3, 12)
    for name in ("reward", "gold_utility"):
        assert summary[name]["after_rl"] == {"arithmetic": after[name]}
    found = lines(root, "rl")
    assert [line["step"] for line in found] == [1, 2, 3, 4]
    # Two updates on each generation: at the first the policy is that which generated, at the second it is not.
    assert [line["ppo_kl"] == 0 for line in found] == [True, False, True, False]
    assert all("clip_ratio/region_mean" in line for line in found)
    generations = [line for line in found if "true_reward" in line]
    assert [line["step"] for line in generations] == [1, 3]
    for line in generations:
        rewards = [row["true_reward"] for row in rows if row["step"] == line["step"] - 1]
        assert line["true_reward"] == pytest.approx(sum(rewards) / 16)
        assert line["mean_abs_advantage"] > 0
        assert line["geoalign/seconds"] >= 0


APPEALS = {"type": "appeals", "budget": 3, "curator": {"type": "denoise", "geometry": "none"}}


@pytest.fixture(scope="module")
def learned_from_function(tiny, train_here, tmp_path_factory):
    """A run that learns from a function of the user's; its curator appeals to the task's own reward."""
    folder = tmp_path_factory.mktemp("function")
    (folder / "functions.py").write_text(FUNCTIONS)
    reward = {"flip": 0.0, "function": f"{folder / 'functions.py'}:even"}
    train_here(tiny(reward=reward, curator=APPEALS, evaluation={"every": 2}), folder / "run")
    return folder / "run"


def test_rl_learns_from_a_function_and_everything_else_from_the_truth(learned_from_function):
    root = learned_from_function
    rows = rollouts(root)
    assert [row["reward"] for row in rows] == [float(len(row["response"]) % 2) for row in rows]
    # A model that was warm-started for one step answers nothing: every reward of the function is wrong.
    assert {row["true_reward"] for row in rows} == {0.0}
    assert [row["corrupted"] for row in rows] == [row["reward"] == 1 for row in rows]
    assert sum(row["corrupted"] for row in rows) > 4
    found = lines(root, "rl")
    assert {line["true_reward"] for line in found if "true_reward" in line} == {0.0}
    assert any(line["rewards/even/mean"] > 0 for line in found if "rewards/even/mean" in line)
    assert {line["accuracy"] for line in lines(root, name="evaluation.jsonl")} == {0.0}


def test_appeals_go_to_the_truth(learned_from_function):
    overturned = [row for row in rollouts(learned_from_function) if row["anomalous"]]
    assert overturned
    assert all(row["corrupted"] for row in overturned)


def test_appeals_go_to_a_second_verifier_within_their_budget(functions, tiny, train_here, tmp_path):
    (tmp_path / "second.py").write_text(SECOND)
    command = f"{sys.executable} {tmp_path / 'second.py'} {tmp_path / 'asked'}"
    reward = {"flip": 0.0, "function": f"{functions}:even", "second_verifier": command}
    train_here(tiny(reward=reward, curator=APPEALS), tmp_path / "run")
    asked = [int(line) for line in (tmp_path / "asked").read_text().splitlines()]
    # In each of two batches first about rows drawn at random, then about those that are chosen.
    batches = list(zip(asked[::2], asked[1::2], strict=True))
    assert len(batches) == 2
    assert all(0 < drawn + chosen <= 3 for drawn, chosen in batches)
    settled = [line["geoalign/appeals"] for line in lines(tmp_path / "run", "rl") if "geoalign/appeals" in line]
    assert sum(settled) >= sum(asked)


def test_a_second_verifier_that_no_curator_asks_is_told(tiny):
    settings = parse_run_config(tiny(reward={"flip": 0.2, "second_verifier": "geoalign.answers.naive:strict"}))
    console = Console(file=io.StringIO(), width=200)
    make_plan(settings, RunFolder(Path("unused")), console)
    assert "reward.second_verifier is never asked: grpo checks no responses" in console.file.getvalue()


def test_what_a_function_cannot_score_is_counted_and_stops_the_run(functions, tiny, train_here, tmp_path):
    reward = {"flip": 0.0, "function": f"{functions}:mostly_unscored"}
    with pytest.raises(UnscoredError, match=r"got none for 15 of 16 responses: .*unscored 15"):
        train_here(tiny(reward=reward), tmp_path / "run")
    train_here(tiny(reward={**reward, "max_unscored": 1.0}), tmp_path / "allowed")
    found = lines(tmp_path / "allowed", "rl")
    for name in ("reward/unscored", "geoalign/unscored_rows"):
        assert {line[name] for line in found if name in line} == {15.0}
    assert [row["reward"] for row in rollouts(tmp_path / "allowed")].count(None) == 30
    with pytest.raises(InputError, match=r"reward\.function: expected a list of 16 rewards, .*; got 1\."):
        train_here(tiny(reward={"flip": 0.0, "function": f"{functions}:too_few"}), tmp_path / "few")


STRICT = {"flip": 0.0, "function": "geoalign.answers.naive:strict"}


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"reward": {"extremes": 0.1}}, r"^reward\.extremes: expected 0, .*use reward\.flip"),
        ({"reward": {"flip": 0.0, "function": "nowhere:f"}}, "reward.function: expected MODULE:NAME"),
        ({"reward": {"flip": 0.0, "second_verifier": "nowhere:f"}}, "reward.second_verifier: expected MODULE:NAME"),
        ({"reward": {**STRICT, "flip": 0.3}}, "reward.flip: expected 0 with reward.function"),
        ({"reward": STRICT, "curator": {"type": "par"}}, "reward.function: expected a curator that needs no reference"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_at_once(sections, words, tiny, train_here, tmp_path):
    with pytest.raises(ConfigError, match=words):
        train_here(tiny(**sections), tmp_path / "run")
    assert not (tmp_path / "run" / "config.yaml").exists()


class Failing:
    """The sum of a response's digits; in one call of a training batch, three of every four are not scored."""

    binary = False

    def __init__(self, fails_at: int | None) -> None:
        self.counters = {"scored": 0, "too_long": 0, "unreachable": 0}
        self.fails_at, self.calls = fails_at, 0

    def score(self, responses: Any, answers: Any, *, prompts: Any = None) -> list[float]:
        rewards = [float(sum(int(sign) for sign in text if sign.isdecimal())) for text in responses]
        if len(responses) != 16:
            return rewards  # an evaluation
        self.calls += 1
        if self.calls - 1 == self.fails_at:
            self.counters["unreachable"] += 12
            rewards = [math.nan if row % 4 < 3 else reward for row, reward in enumerate(rewards)]
        return rewards


def test_a_run_whose_rewards_fail_stops_and_goes_on_as_if_nothing_had_been(tiny, train_here, tmp_path, monkeypatch):
    def score_by(made: Failing) -> None:
        @contextmanager
        def opened(run: Any) -> Iterator[Any]:
            yield made

        monkeypatch.setattr("geoalign.lab.train.train.reward_source", opened)

    monkeypatch.setattr("geoalign.lab.train.plan.binary_reward", lambda plan: False)
    settings = tiny(reward={"flip": 0.0})
    score_by(Failing(None))
    train_here(settings, tmp_path / "undisturbed")
    score_by(Failing(1))  # in the second generation, after a checkpoint
    with pytest.raises(UnscoredError, match=r"for 12 of 16 responses: unreachable 12\. Once the cause .* --resume"):
        train_here(settings, tmp_path / "stopped")
    score_by(Failing(None))
    train_here(settings, tmp_path / "stopped", resume=True)
    assert same_weights(tmp_path / "stopped", tmp_path / "undisturbed")
    told, wanted = (
        [(line["step"], line.get("reward"), line.get("num_tokens")) for line in lines(tmp_path / name, "rl")]
        for name in ("stopped", "undisturbed")
    )
    assert told == wanted


def test_any_task_may_be_scored_by_a_ready_model_here_or_behind_a_server(tiny, train_here, tmp_path):
    classifier = saved_classifier(tmp_path / "classifier", "0123456789+-*=;?\\boxed{} ", max_length=128)
    train_here(tiny(reward={"flip": 0.0, "model": {"path": str(classifier)}}), tmp_path / "here")
    with RewardModelScorer.load(classifier) as scorer:
        tokenizer = AutoTokenizer.from_pretrained(classifier)

        def raw_output(text: str) -> float:
            return scorer.scores([Written([], text, tokenizer(text, add_special_tokens=False)["input_ids"])])[0]

        server = VLLMServer(raw_output, longest=128)
        model = {"url": server.url, "tokenizer": str(classifier), "patience": 5}
        train_here(tiny(reward={"flip": 0.0, "model": model}), tmp_path / "there")
        server.stop()
    rewards = []
    for root in (tmp_path / "here", tmp_path / "there"):
        found = lines(root, "after_rl", "evaluation.jsonl")
        assert found
        assert all(line["accuracy"] is None and math.isfinite(line["reward"]) for line in found)
        assert not (root / "checkpoints/reward_model").exists()
        rewards.append(pq.read_table(root / "rollouts/step-000000.parquet")["reward"].to_pylist())
    assert rewards[0] == pytest.approx(rewards[1], abs=1e-5)
    assert len(set(rewards[0])) > 2
