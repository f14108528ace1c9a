"""A full-size run made small: every stage on its real data with a tiny model, in a minute on a CPU (`--smoke`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from geoalign.curators.geoalign import GeoAlignConfig
from geoalign.errors import GeoAlignError
from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.lab.config.run import LaunchConfig, RunConfig, TinyModelConfig
from geoalign.lab.store.json_files import read_json, read_lines
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.tasks import make_task
from geoalign.lab.terminal import Console
from geoalign.lab.train.options import trainer_options, without_gpu
from geoalign.lab.train.prompts import generation_shape

_ROLLOUTS, _GENERATIONS = 256, 3
_ROWS, _PROBLEMS, _PROMPT, _RESPONSE = 512, 2, 256, 8
# Enough that groups are mixed, though the tiny model answers nothing right.
_CORRUPTED = 0.4

# Options that say how long to train or on how much at once, or that need an account.
_RESIZED = ("num_train_epochs", "gradient_accumulation_steps", "generation_batch_size", "report_to")


def smoke_config(config: RunConfig) -> RunConfig:
    """The same run with a tiny model in fp32, no vLLM, short responses, small batches, and corrupted rewards.

    Anchors, which may be longer than a model of characters can take, are left out. Curator, data, loss, learning rates,
    updates per generation and every other setting stay. Whatever reward model is named gives way to one that the run
    trains itself, in two steps. At least 0.4 of the rewards are corrupted (`reward.flip` or, of a reward model,
    `reward.extremes`).
    """
    reward, task = config.reward, _few_rows(config.task)
    if make_task(task, seed=config.seed).preference_pairs():
        reward = replace(reward, extremes=max(reward.extremes, _CORRUPTED))
    elif reward.function is None:
        reward = replace(reward, flip=max(reward.flip, _CORRUPTED))
    updates = generation_shape(
        trainer_options("grpo", without_gpu(config.grpo), seed=config.seed, folder=Path())
    ).updates
    short_stage = {"max_steps": 2, "save_steps": 2, "per_device_train_batch_size": 4, "max_length": 256}
    return replace(
        config,
        model=TinyModelConfig(hidden_size=32, layers=2, heads=2, max_length=4096),
        max_prompt_length=min(config.max_prompt_length or _PROMPT, _PROMPT),
        task=task,
        reward=replace(reward, model=RewardModelConfig()),
        anchors=None,
        sft=None if config.sft is None else {**_kept(config.sft), **short_stage},
        reward_model={**_kept(config.reward_model), **short_stage},
        reward_head=None,
        grpo={
            **_kept(config.grpo),
            "max_completion_length": _RESPONSE,
            "per_device_train_batch_size": _ROLLOUTS // updates,
            "steps_per_generation": updates,
            "max_steps": _GENERATIONS * updates,
            "save_steps": updates,
        },
        evaluation=replace(
            config.evaluation, every=1, problems=_PROBLEMS, samples=2, pass_samples=None, max_new_tokens=_RESPONSE
        ),
        launch=LaunchConfig(),
    )


def check_exercised(config: RunConfig, folder: RunFolder, console: Console) -> None:
    """Says what the curator had to do; GeoAlignError where it had nothing: such a smoke test would prove nothing."""
    done, curator = read_json(folder.summary)["curator"], config.curator
    alike = [value for line in read_lines(folder.metrics) if (value := line.get("frac_reward_zero_std")) is not None]
    counts = {"pairs": done["pairs"], "replaced rollouts": done["replaced"]}
    acts = isinstance(curator, GeoAlignConfig) and not curator.observe_only and curator.strategy == "replace"
    for name, count in {"groups whose rewards differ": len(alike) - sum(alike), **(counts if acts else {})}.items():
        if not count:
            raise GeoAlignError(f"smoke test: expected {name}, got none")
    said = "".join(f", {int(count)} {name}" for name, count in counts.items() if count is not None)
    console.print(
        f"Smoke test: tiny model, corrupted rewards{said}. It shows that the path runs; its numbers say nothing about "
        "the method.",
        soft_wrap=True,
    )


def _few_rows(task: Any) -> Any:
    """The task cut to its first rows, where it reads files."""
    changes: dict[str, Any] = {}
    if hasattr(task, "limit"):
        changes["limit"] = min(task.limit or _ROWS, _ROWS)
    if getattr(task, "rl_prompts", None) is not None:
        changes["rl_prompts"] = min(task.rl_prompts, _ROWS // 4)
    return replace(task, **changes)


def _kept(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in without_gpu(options).items() if name not in _RESIZED}
