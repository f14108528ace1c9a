"""`--dry-run`: the plan of a launch of several processes, for a model whose weights are never read."""

import json
from pathlib import Path
from typing import Any

import pytest

from geoalign.errors import ConfigError
from geoalign.lab.models.language_model import make_tiny_model, make_tokenizer, save
from geoalign.lab.models.settings import TinyModelConfig
from geoalign.lab.train.dry_run import launch_command
from geoalign.lab.train.read_settings import parse_run_config


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    model, problems = tmp_path / "model", tmp_path / "problems.jsonl"
    tokenizer = make_tokenizer(None, max_length=4096)
    save(make_tiny_model(TinyModelConfig(hidden_size=16, layers=1, heads=1), tokenizer, seed=0), tokenizer, model)
    (model / "model.safetensors").unlink()  # no weight is ever read
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
            "use_vllm": True,
            "bf16": True,
        },
        "evaluation": {"every": 3, "samples": {"kept": 2}},
        "launch": {"processes": 4},
    }


def test_the_plan_counts_what_all_processes_do(settings: dict[str, Any], dry_run_output: Any, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    text = dry_run_output(settings, config_file=Path("mine.yaml"), overrides=["seed=3"])
    # 2 rollouts x 4 processes x 4 micro-batches = 32 = 8 prompts x 4; 4 / 2 = 2 updates; 20 problems: 2 generations.
    assert "8 prompts x 4 = 32 rollouts, 4 processes" in text
    assert "4 in 2 generations, 2 on each" in text
    assert "64, of at most 32 tokens" in text
    assert "20 problems x 2" in text
    assert "before and after RL, every 3 updates" in text
    # 128 rollouts a process, where the settings say nothing.
    assert "16 prompts x 128 = 2,048 rollouts, 8 processes" in dry_run_output(
        {**settings, "grpo": {"num_generations": 128}, "launch": {"processes": 8}}
    )
    assert "What is 1" in text
    assert "accelerate launch --num_processes 4 -m geoalign train mine.yaml --set seed=3 --output runs/mine" in text
    assert "Not checked" not in text
    assert sorted(tmp_path.rglob("*")) == before


def test_a_reward_server_need_not_run_yet_and_too_long_prompts_are_counted(
    settings: dict[str, Any], dry_run_output: Any
) -> None:
    model = {"url": "http://127.0.0.1:9", "timeout": 1, "patience": 1}
    text = dry_run_output({**settings, "reward": {"model": model}, "max_prompt_length": 130})
    assert "Not checked: the reward's server" in text
    left = int(text.partition(" of 20 training prompts left out")[0].rpartition(" ")[2])
    assert f"training prompts │ {20 - left}: median" in text


def test_what_is_wrong_is_found(settings: dict[str, Any], dry_run_output: Any) -> None:
    with pytest.raises(ConfigError, match=r"gone\.jsonl: expected a local file"):
        dry_run_output({**settings, "task": {"type": "math", "train": "gone.jsonl"}})
    with pytest.raises(ConfigError, match=r"evaluation\.samples\.kept, the nearest known key"):
        dry_run_output({**settings, "evaluation": {"samples": {"keep": 2}}})
    # An option of GPUs, which is checked by name and type off one, too.
    with pytest.raises(ConfigError, match=r"grpo\.use_vllm: expected bool .* got 'yes'"):
        dry_run_output({**settings, "grpo": {**settings["grpo"], "use_vllm": "yes"}})


def test_the_launch_command() -> None:
    config = parse_run_config({"launch": {"processes": 8, "accelerate": "a b.yaml"}, "output": {"folder": "runs/x"}})
    assert launch_command(config, Path("c.yaml"), []) == (
        "accelerate launch --config_file 'a b.yaml' -m geoalign train c.yaml --output runs/x"
    )
    assert launch_command(parse_run_config({}), None, []) == "geoalign train --output runs/default"
    assert launch_command(parse_run_config({}), None, [], Path("my run")) == "geoalign train --output 'my run'"
