"""Whole runs whose reward is a learned model: warm start, reward model, GRPO with a curator, evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from geoalign.lab.config.loading import load_run_config
from geoalign.settings.loading import plain_settings

REPOSITORY = Path(__file__).parents[3]
Train = Callable[..., dict[str, Any]]

SETTINGS: dict[str, Any] = {
    "model": {"hidden_size": 16, "layers": 1, "heads": 1},
    "task": {
        "type": "dialogue",
        "train_problems": 16,
        "evaluation_problems": 6,
        "demonstrations": 512,
        "preference_pairs": 200,
        "seed": 0,
    },
    "curator": {"type": "geoalign", "min_scores": 4, "alpha": 0.5, "projector": {"steps": 3}},
    "sft": {"max_steps": 30, "per_device_train_batch_size": 32, "learning_rate": 1e-2, "save_steps": 30},
    "reward_model": {"max_steps": 6, "per_device_train_batch_size": 8, "save_steps": 3, "warmup_steps": 1},
    "grpo": {
        "max_steps": 4,
        "num_generations": 4,
        "per_device_train_batch_size": 16,
        "steps_per_generation": 2,
        "save_steps": 2,
        "max_completion_length": 12,
    },
    "evaluation": {"every": 2},
    "output": {"keep_checkpoints": None},
}


def lines(path: Path, stage: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in found if line["stage"] == stage]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    import io

    import torch
    from rich.console import Console

    from geoalign.lab.config.loading import parse_run_config
    from geoalign.lab.train.train import train

    root = tmp_path_factory.mktemp("dialogue") / "run"
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    train(parse_run_config(SETTINGS), root, console=Console(file=io.StringIO()))
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)
    return root


def test_the_reward_model_stage_reports_held_out_pairs(finished: Path) -> None:
    *training, held_out = lines(finished / "metrics.jsonl", "reward_model")
    assert [line["step"] for line in training] == [1, 2, 3, 4, 5, 6]
    assert all("margin" in line for line in training)
    assert held_out["step"] == 6
    summary = json.loads((finished / "summary.json").read_text())["reward_model"]
    assert summary["count"] >= 20
    assert {f"heldout/{name}": value for name, value in summary.items()}.items() <= held_out.items()


def test_the_same_stages_on_real_preference_pairs(shared_data: Path, train_here: Train, tmp_path: Path) -> None:
    settings = {
        **SETTINGS,
        "model": {"hidden_size": 16, "layers": 1, "heads": 1},
        "task": {
            "type": "hh_rlhf",
            "train": str(shared_data / "hh_rlhf" / "harmless-base" / "test.jsonl.gz"),
            "evaluation": {"helpful": str(shared_data / "hh_rlhf" / "helpful-base" / "test.jsonl.gz")},
            "max_characters": 200,
            "limit": 64,
        },
        "sft": {"max_steps": 3, "per_device_train_batch_size": 8},
        "reward_model": {"max_steps": 3, "per_device_train_batch_size": 8},
        "evaluation": {"every": None, "problems": 4},
    }
    summary = train_here(settings, tmp_path / "run")
    assert summary["reward_model"]["count"] >= 6
    assert summary["reward_model"]["against_shortcut"] is None
    (line,) = lines(tmp_path / "run" / "evaluation.jsonl", "after_rl")
    assert isinstance(line["reward"], float)
    assert line["gold_utility"] is None
    assert summary["curator"]["pairs"] > 0


@pytest.mark.slow
def test_the_shipped_settings_raise_the_reward_and_the_curves_part(train_here: Train, tmp_path: Path) -> None:
    config = load_run_config(REPOSITORY / "configs" / "dialogue.yaml", ["curator.type=grpo"]).config
    summary = train_here(plain_settings(config), tmp_path / "run")
    assert summary["reward_model"]["accuracy"] > 0.8
    # The rejected response flatters: a reward model that ranked content alone would get most of these right.
    assert summary["reward_model"]["against_shortcut"] < 0.5
    before, after = (summary["reward"][stage]["dialogue"] for stage in ("before_rl", "after_rl"))
    # Three runs scattered by 0.1 around a gain of 2.8.
    assert after > before + 1.5
    gold_before, gold_after = (summary["gold_utility"][stage]["dialogue"] for stage in ("before_rl", "after_rl"))
    assert gold_after < gold_before + 0.3
