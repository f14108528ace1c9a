"""Every full-size run, made small, on the real data: SFT where there is one, RL, evaluation."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from geoalign.files.json_files import read_lines
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.train.read_settings import load_run_config
from geoalign.lab.train.settings import RunConfig
from geoalign.lab.train.smoke import check_exercised, smoke_config
from geoalign.settings.loading import plain_settings

FULL = Path(__file__).parents[4] / "configs" / "full"
CONFIGS = sorted(path for path in FULL.glob("*_*b/*.yaml"))

MATH = {
    "task.train": "dapo_math_17k/dapo_math_17k.parquet",
    "task.evaluation.aime24": "aime24/test.jsonl",
    "task.evaluation.aime25": "aime25/test.jsonl",
    "task.evaluation.amc23": "amc23/test.jsonl",
    "task.evaluation.math500": "math500/test.jsonl",
    "task.evaluation.minerva": "minerva_math/test.jsonl",
    "task.evaluation.olympiadbench": "olympiadbench/test.jsonl",
}
DIALOGUE = {
    "task.train": "hh_rlhf/helpful-online/test.jsonl.gz",
    "task.evaluation.helpful": "hh_rlhf/helpful-base/test.jsonl.gz",
    "task.evaluation.harmless": "hh_rlhf/harmless-base/test.jsonl.gz",
}


def smaller(config: RunConfig) -> RunConfig:
    """Two batches of fewer rollouts (GeoAlign has to find some to replace), evaluated before and after."""
    size = config.grpo["per_device_train_batch_size"] // (2 if config.curator.type == "geoalign" else 4)
    grpo = {**config.grpo, "per_device_train_batch_size": size, "max_steps": 2}
    config = replace(config, grpo=grpo, evaluation=replace(config.evaluation, every=None))
    if not hasattr(config.task, "rl_prompts"):
        return config
    # Long dialogues are scored by no model of letters, and take most of the time.
    model, task = replace(config.model, max_length=1024), replace(config.task, limit=256, rl_prompts=64)
    return replace(config, model=model, task=task)


@pytest.mark.smoke
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_full_size_run_made_small(path: Path, shared_data: Path, train_here: Any, tmp_path: Path) -> None:
    dialogue = path.parent.name.startswith("hh")
    files = DIALOGUE if dialogue else MATH
    given = load_run_config(path, [f"{key}={shared_data / file}" for key, file in files.items()]).config
    config = smaller(smoke_config(given))
    # Everything that is not a matter of size is as it was.
    assert (config.curator, config.hidden_position, config.seed) == (given.curator, given.hidden_position, given.seed)
    for option in ("num_generations", "loss_type", "beta", "epsilon", "learning_rate", "temperature", "scale_rewards"):
        assert config.grpo[option] == given.grpo[option]
    summary = train_here(plain_settings(config), tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    said = io.StringIO()
    check_exercised(folder, Console(file=said, width=200))
    assert "wrong rewards" in said.getvalue()
    assert summary["steps"] == 2
    stages = {line["stage"] for line in read_lines(folder.metrics)}
    assert stages == ({"sft", "reward_model", "rl"} if dialogue else {"rl"})
    sets = {line["set"] for line in read_lines(folder.evaluation) if line["stage"] == "after_rl"}
    assert sets == set(given.task.evaluation)
    if path.stem in ("geoalign", "flip_05", "extremes_05", "extremes_10"):
        assert summary["curator"]["replaced"] > 0
