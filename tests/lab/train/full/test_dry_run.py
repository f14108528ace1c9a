"""The plan of a run, from what can be known without its weights."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from geoalign.errors import ConfigError
from geoalign.lab.config.loading import parse_run_config
from geoalign.lab.config.run import TinyModelConfig
from geoalign.lab.models.models import make_tiny_model, make_tokenizer, save
from geoalign.lab.train.rehearsal import dry_run, launch_command


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = make_tokenizer(None, max_length=4096)
    save(make_tiny_model(TinyModelConfig(hidden_size=16, layers=1, heads=1), tokenizer, seed=0), tokenizer, folder)
    (folder / "model.safetensors").unlink()  # no weight is ever read
    return folder


@pytest.fixture
def settings(model: Path, tmp_path: Path) -> dict[str, Any]:
    problems = tmp_path / "problems.jsonl"
    rows = [{"question": f"What is {'1 + ' * number}1?", "answer": str(number + 1)} for number in range(20)]
    problems.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "model": {"type": "pretrained", "path": str(model)},
        "task": {"type": "math", "train": str(problems), "evaluation": {"kept": str(problems)}},
        "sft": None,
        "grpo": {
            "num_generations": 4,
            "per_device_train_batch_size": 2,
            "steps_per_generation": 4,
            "gradient_accumulation_steps": 2,
            "num_train_epochs": 1,
            "max_completion_length": 32,
            "shuffle_dataset": False,
            "use_vllm": True,
            "bf16": True,
        },
        "evaluation": {"every": 3, "samples": {"kept": 2}},
        "launch": {"processes": 4},
    }


def said(settings: dict[str, Any], **options: Any) -> str:
    console = Console(file=io.StringIO(), width=160)
    dry_run(parse_run_config(settings), console, **options)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return " ".join(text.split())


def test_the_plan_counts_what_all_processes_do(settings: dict[str, Any], tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    text = said(settings, config_file=Path("mine.yaml"), overrides=["seed=3"])
    # 2 rollouts x 4 processes x 4 micro-batches = 32 = 8 prompts x 4; 4 / 2 = 2 updates; 20 problems: 2 generations.
    assert "8 prompts x 4 = 32 rollouts, 4 processes" in text
    assert "4 in 2 generations, 2 on each" in text
    assert "64, of at most 32 tokens" in text
    assert "20 problems x 2" in text
    assert "3, every 3 updates" in text  # before, after 3 updates, and at the end
    assert "What is 1?" in text
    assert "accelerate launch --num_processes 4 -m geoalign train mine.yaml --set seed=3 --output runs/mine" in text
    assert "Not checked" not in text
    assert sorted(tmp_path.rglob("*")) == before


def test_too_long_prompts_are_counted(settings: dict[str, Any]) -> None:
    text = said({**settings, "max_prompt_length": 130})
    assert "of 20 training prompts left out: more than max_prompt_length = 130 tokens" in text
    left = int(text.partition(" of 20 training prompts")[0].rpartition(" ")[2])
    assert 0 < left < 20
    assert f"training prompts │ {20 - left}: median" in text
    with pytest.raises(
        ConfigError, match="max_prompt_length: expected a limit that some of the 20 training prompts keep"
    ):
        said({**settings, "max_prompt_length": 3})


def test_a_reward_server_need_not_run_yet(settings: dict[str, Any]) -> None:
    text = said({**settings, "reward": {"model": {"url": "http://127.0.0.1:9", "timeout": 1, "patience": 1}}})
    assert "Not checked: the reward's server" in text


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"task": {"type": "math", "train": "gone.jsonl"}}, "gone.jsonl: expected a local file"),
        ({"grpo": {"num_generation": 4}}, "grpo.num_generations, the nearest known key"),
        ({"evaluation": {"samples": {"keep": 2}}}, "evaluation.samples.kept, the nearest known key"),
        ({"model": {"type": "pretrained", "path": "/nowhere"}}, "model.path: expected a tokenizer"),
        ({"launch": {"accelerate": "gone.yaml"}}, "launch.accelerate: expected accelerate's settings file"),
    ],
)
def test_what_is_wrong_is_found(settings: dict[str, Any], change: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        said({**settings, **change})


def test_the_launch_command() -> None:
    config = parse_run_config({"launch": {"processes": 8, "accelerate": "a b.yaml"}, "output": {"folder": "runs/x"}})
    assert launch_command(config, Path("c.yaml"), []) == (
        "accelerate launch --config_file 'a b.yaml' -m geoalign train c.yaml --output runs/x"
    )
    assert launch_command(parse_run_config({}), None, []) == "geoalign train --output runs/default"
    assert launch_command(parse_run_config({}), None, [], Path("my run")) == "geoalign train --output 'my run'"
