"""Runs whose reward is a function that the settings name: what RL learns from, what is logged, what is evaluated by."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from geoalign.errors import ConfigError, InputError, UnscoredError
from geoalign.lab.config.compare_loading import load_compare_config
from geoalign.lab.config.comparison_plan import resolved_run
from geoalign.settings.loading import plain_settings

Train = Callable[..., dict[str, Any]]
Tiny = Callable[..., dict[str, Any]]

PLANS = Path(__file__).parents[3] / "configs" / "evidence"
FUNCTIONS = """
from geoalign.lab.rewards.base import response_text

def even(prompts, completions, answer, problem_id, **columns):
    assert columns["trainer_state"].global_step in (0, 2)
    return [float(len(response_text(each)) % 2) for each in completions]

def mostly_unscored(completions, **columns):
    return [1.0] + [None] * (len(completions) - 1)

def too_few(completions, **columns):
    return [1.0]

def second(prompts, completions, answer, **columns):
    with open(__file__ + ".asked", "a") as file:
        file.write(str(len(completions)) + "\\n")
    return [0.25] * len(completions)
"""


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    path = tmp_path / "functions.py"
    path.write_text(FUNCTIONS)
    return path


def rows_of(root: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(root.glob("rollouts/*")) for row in pq.read_table(path).to_pylist()]


def metrics_of(root: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (root / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["stage"] == "rl"]


def test_rl_learns_from_the_function_and_everything_else_from_the_truth(
    functions: Path, tiny: Tiny, train_here: Train, tmp_path: Path
) -> None:
    settings = tiny(
        reward={"flip": 0.0, "function": f"{functions}:even"}, curator={"type": "oracle"}, evaluation={"every": 2}
    )
    train_here(settings, tmp_path / "run", report=True)
    rows = rows_of(tmp_path / "run")
    assert [row["reward"] for row in rows] == [float(len(row["response"]) % 2) for row in rows]
    # A model that was warm-started for one step answers nothing: every reward of the function is wrong.
    assert {row["true_reward"] for row in rows} == {0.0}
    assert [row["corrupted"] for row in rows] == [row["reward"] == 1 for row in rows]
    assert [row["anomalous"] for row in rows] == [row["corrupted"] for row in rows]
    assert sum(row["corrupted"] for row in rows) > 4
    lines = metrics_of(tmp_path / "run")
    assert {line["true_reward"] for line in lines if "true_reward" in line} == {0.0}
    assert any(line["rewards/even/mean"] > 0 for line in lines if "rewards/even/mean" in line)
    evaluations = [json.loads(line) for line in (tmp_path / "run" / "evaluation.jsonl").read_text().splitlines()]
    assert {line["accuracy"] for line in evaluations} == {0.0}


def test_appeals_ask_the_second_verifier_or_the_truth(
    functions: Path, tiny: Tiny, train_here: Train, tmp_path: Path
) -> None:
    curator = {"type": "appeals", "budget": 3, "curator": {"type": "denoise", "geometry": "none"}}
    reward = {"flip": 0.0, "function": f"{functions}:even"}
    train_here(tiny(reward={**reward, "appeals": f"{functions}:second"}, curator=curator), tmp_path / "second")
    asked = [int(line) for line in (functions.parent / "functions.py.asked").read_text().splitlines()]
    assert len(asked) == 2
    assert 0 < max(asked) <= 3
    settled = [line["geoalign/appeals"] for line in metrics_of(tmp_path / "second") if "geoalign/appeals" in line]
    assert sum(settled) >= sum(asked)
    train_here(tiny(reward=reward, curator=curator), tmp_path / "truth")
    overturned = [row for row in rows_of(tmp_path / "truth") if row["anomalous"]]
    assert overturned
    assert all(row["corrupted"] for row in overturned)


def test_what_the_function_cannot_score_is_counted_and_stops_the_run(
    functions: Path, tiny: Tiny, train_here: Train, tmp_path: Path
) -> None:
    reward = {"flip": 0.0, "function": f"{functions}:mostly_unscored"}
    with pytest.raises(UnscoredError, match=r"got none for 15 of 16 responses: .*unscored 15"):
        train_here(tiny(reward=reward), tmp_path / "run")
    train_here(tiny(reward={**reward, "max_unscored": 1.0}), tmp_path / "allowed")
    lines = metrics_of(tmp_path / "allowed")
    for name in ("reward/unscored", "geoalign/unscored_rows"):
        assert {line[name] for line in lines if name in line} == {15.0}
    with pytest.raises(InputError, match=r"reward\.function: expected 16 results, one per completion, got 1"):
        train_here(tiny(reward={"flip": 0.0, "function": f"{functions}:too_few"}), tmp_path / "few")


@pytest.mark.parametrize(
    ("arm", "metric", "least"),
    [
        ("denoise_labels_48", "anchors", 48),
        ("appeals", "appeals", 4),
    ],
)
def test_the_arms_of_the_plan_that_know_some_truth(
    arm: str, metric: str, least: float, train_here: Train, tmp_path: Path
) -> None:
    """With a tiny model in the place of the pretrained one."""
    changes = (
        "model.type=tiny", "model.hidden_size=16", "model.layers=1", "model.heads=1", "hidden_source=own_pass",
        "task.demonstrations=32", "sft.max_steps=1", "sft.save_steps=1", "sft.per_device_train_batch_size=4",
        "grpo.max_steps=2", "grpo.save_steps=2", "evaluation.every=null", "evaluation.problems=2",
    )  # fmt: skip
    plan = load_compare_config(
        PLANS / "real_verifier_substring.yaml", [f"run.{change}" for change in changes], arms=["grpo", arm]
    ).config
    train_here(plain_settings(resolved_run(plan, "as_given", arm, 10)), tmp_path / "run")
    rows = rows_of(tmp_path / "run")
    assert len(rows) == 40
    [line] = [line for line in metrics_of(tmp_path / "run") if f"geoalign/{metric}" in line]
    assert line[f"geoalign/{metric}"] >= least


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"reward": {"flip": 0.0, "function": "nowhere:f"}}, "reward.function: expected MODULE:NAME"),
        ({"reward": {"flip": 0.0, "appeals": "nowhere:f"}}, "reward.appeals: expected MODULE:NAME"),
        ({"reward": {"flip": 0.0, "function": "no colon"}}, "reward.function: "),
        ({"reward": {"function": "geoalign.lab.rewards.naive:strict"}}, "reward.flip: expected 0 with reward.function"),
        (
            {"reward": {"flip": 0.0, "function": "geoalign.lab.rewards.naive:strict"}, "curator": {"type": "par"}},
            "reward.function: expected a curator that needs no reference_rewards",
        ),
    ],
)
def test_settings_that_do_not_go_together(
    sections: dict[str, Any], words: str, tiny: Tiny, train_here: Train, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=words):
        train_here(tiny(**sections), tmp_path / "run")
    assert not (tmp_path / "run" / "config.yaml").exists()
