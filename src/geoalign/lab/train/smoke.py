"""`geoalign train --smoke`: the run made small, and whether its curator had anything to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from geoalign.console.terminal import Console, say_paragraph
from geoalign.errors import GeoAlignError
from geoalign.files.json_files import read_json, read_lines
from geoalign.lab.data.settings import HHRLHFConfig, MathConfig, TaskConfig
from geoalign.lab.data.tasks import make_task
from geoalign.lab.models.settings import TinyModelConfig
from geoalign.lab.rewards.settings import RewardConfig, RewardModelConfig
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.train.options import generation_shape, trainer_options, without_gpu
from geoalign.lab.train.settings import LaunchConfig, RunConfig

# Of a smoke test: rollouts in a generation, rows of a file, tokens of a prompt and of a response.
_ROLLOUTS = 256
_ROWS = 512
_PROMPT = 256
_RESPONSE = 8
# The share of corrupted rewards: enough that groups are mixed, though the tiny model answers nothing right.
_CORRUPTED = 0.4

# Options that say how long to train or on how much at once, or that need an account.
_RESIZED = (
    "num_train_epochs",
    "gradient_accumulation_steps",
    "generation_batch_size",
    "num_iterations",
    "logging_steps",
    "report_to",
)


def smoke_config(config: RunConfig) -> RunConfig:
    """The same run with a tiny model in fp32, no vLLM, short responses, small batches, and at least 0.4 of the rewards
    corrupted.

    Curator, data, loss, learning rates and updates per generation stay; any reward model named gives way to one that
    the run trains itself, in two steps; labelled rollouts, perhaps too long for a model of characters, are left out.
    """
    task = _few_rows(config.task)
    short_stage = {"max_steps": 2, "save_steps": 2, "per_device_train_batch_size": 4, "max_length": 256}
    return replace(
        config,
        model=TinyModelConfig(hidden_size=32, layers=2, heads=2, max_length=4096),
        max_prompt_length=min(config.max_prompt_length or _PROMPT, _PROMPT),
        task=task,
        reward=_corrupted(config.reward, task, config.seed),
        labelled_rollouts=None,
        sft=None if config.sft is None else {**_kept(config.sft), **short_stage},
        reward_model={**_kept(config.reward_model), **short_stage},
        gold_model={**_kept(config.gold_model), **short_stage} if config.gold_model else {},
        reward_head=None,
        grpo=_small_grpo(config),
        evaluation=replace(
            config.evaluation, every=1, problems=2, samples=2, pass_samples=None, max_new_tokens=_RESPONSE
        ),
        launch=LaunchConfig(),
    )


def smoke_folder(folder: Path) -> Path:
    """The folder of a smoke test, beside that of its run: in the run's own it would keep the run from starting."""
    return folder.with_name(f"smoke_{folder.name}")


def check_exercised(folder: RunFolder, console: Console) -> None:
    """Says what the curator had to do; GeoAlignError where no group had different rewards: such a smoke test would
    prove nothing."""
    shares_alike = [line.get("frac_reward_zero_std") for line in read_lines(folder.metrics)]
    if all(share in (None, 1.0) for share in shares_alike):
        raise GeoAlignError("smoke test: expected groups whose rewards differ, got none")
    curated = read_json(folder.summary)["curator"]
    counts = {"pairs": curated["pairs"], "replaced rollouts": curated["replaced"]}
    known = {name: count for name, count in counts.items() if count is not None}
    counted = "".join(f", {count:.0f} {name}" for name, count in known.items())
    say_paragraph(
        console,
        f"Smoke test: tiny model, wrong rewards{counted}. It shows that the path runs; its numbers say nothing about "
        "the method.",
    )


def _corrupted(reward: RewardConfig, task: TaskConfig, seed: int) -> RewardConfig:
    """The reward settings with enough corruption for a smoke test; a reward function of the user's stays unchanged."""
    reward = replace(reward, model=RewardModelConfig())
    if reward.function is not None:
        return reward
    if make_task(task, seed=seed).preference_pairs:
        return replace(reward, flip=0.0, extremes=max(reward.extremes, _CORRUPTED))
    return replace(reward, flip=max(reward.flip, _CORRUPTED), extremes=0.0)


def _small_grpo(config: RunConfig) -> dict[str, Any]:
    """The options of RL for three small generations, with as many updates on each as the run makes."""
    options = trainer_options("grpo", without_gpu(config.grpo), seed=config.seed, folder=Path())
    shape = generation_shape(options)
    prompts_at_a_time = max(1, _ROLLOUTS // (shape.updates * shape.samples))
    return {
        **_kept(config.grpo),
        "max_completion_length": _RESPONSE,
        "per_device_train_batch_size": prompts_at_a_time * shape.samples,
        "steps_per_generation": shape.updates,
        "max_steps": 3 * shape.updates,
        "save_steps": shape.updates,
    }


def _few_rows(task: TaskConfig) -> TaskConfig:
    """The task with few rows of its files; one without files as it is."""
    if isinstance(task, MathConfig):
        return replace(task, limit=min(task.limit or _ROWS, _ROWS))
    if isinstance(task, HHRLHFConfig):
        rl_prompts = None if task.rl_prompts is None else min(task.rl_prompts, _ROWS // 4)
        return replace(task, limit=min(task.limit or _ROWS, _ROWS), rl_prompts=rl_prompts)
    return task


def _kept(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a stage that a smoke test keeps."""
    return {name: value for name, value in without_gpu(options).items() if name not in _RESIZED}
