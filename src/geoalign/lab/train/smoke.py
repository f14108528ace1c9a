"""A full-size run made small: every stage on its real data with a tiny model, in a minute on a CPU (`--smoke`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from geoalign.curators.geoalign import GeoAlignConfig
from geoalign.errors import GeoAlignError
from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.lab.config.run import EvaluationConfig, LaunchConfig, RunConfig, TinyModelConfig
from geoalign.lab.store.json_files import read_lines
from geoalign.lab.store.rollouts import read_rollouts
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.tasks import make_task
from geoalign.lab.terminal import Console
from geoalign.lab.train.options import grpo_options, without_gpu
from geoalign.lab.train.prompts import generation_shape

_ROLLOUTS, _GENERATIONS = 256, 3
_ROWS, _PROBLEMS, _PROMPT, _RESPONSE = 512, 2, 256, 8
# Enough that groups are mixed, though the tiny model answers nothing right.
_CORRUPTED = 0.4

# Options that say how long to train or on how much at once, or that need an account.
_RESIZED = ("num_train_epochs", "gradient_accumulation_steps", "generation_batch_size", "report_to")


def smoke_config(config: RunConfig) -> RunConfig:
    """The same run with a tiny model in fp32, no vLLM, short responses, small batches, and corrupted rewards.

    Anchors, which may be longer than a model of characters can take, are left out.

    Curator, data, loss, learning rates, updates per generation and every other setting stay. Whatever reward model is
    named gives way to one that the run trains itself, in two steps. At least 0.4 of the rewards are corrupted
    (`reward.flip` or, of a reward model, `reward.extremes`).

    Raises:
        ConfigError: as `geoalign.lab.train.run.make_run`.
    """
    reward, task = config.reward, _few_rows(config.task)
    learned = bool(make_task(task, seed=config.seed).preference_pairs())
    if learned:
        reward = replace(reward, extremes=max(reward.extremes, _CORRUPTED))
    elif reward.function is None:
        reward = replace(reward, flip=max(reward.flip, _CORRUPTED))
    shape = generation_shape(grpo_options(without_gpu(config.grpo), seed=config.seed, folder=Path()))
    return replace(
        config,
        model=TinyModelConfig(hidden_size=32, layers=2, heads=2, max_length=4096),
        max_prompt_length=min(config.max_prompt_length or _PROMPT, _PROMPT),
        task=task,
        reward=replace(reward, model=RewardModelConfig()),
        anchors=None,
        sft=None if config.sft is None else _short_stage(config.sft, per_device_train_batch_size=4, max_length=256),
        reward_model=_short_stage(config.reward_model, per_device_train_batch_size=4, max_length=256),
        reward_head=None,
        grpo={
            **_kept(config.grpo),
            "max_completion_length": _RESPONSE,
            "per_device_train_batch_size": _ROLLOUTS // shape.updates,
            "steps_per_generation": shape.updates,
            "max_steps": _GENERATIONS * shape.updates,
            "save_steps": shape.updates,
        },
        evaluation=_short_evaluation(config.evaluation),
        launch=LaunchConfig(),
    )


@dataclass(frozen=True)
class Exercised:
    """What a smoke test put through its paces, summed over its generations."""

    rollouts: int
    mixed_groups: int
    pairs: int | None
    replaced: int | None


def check_exercised(config: RunConfig, folder: RunFolder, console: Console) -> Exercised:
    """Says what the curator had to do, and raises where it had nothing: such a smoke test would prove nothing.

    Raises:
        GeoAlignError: no group had rewards that differ; or, of GeoAlign, no pair was formed or no rollout replaced.
    """
    totals = _exercised(folder)
    if totals.mixed_groups == 0:
        raise GeoAlignError(f"smoke test: expected groups whose rewards differ, got none in {totals.rollouts} rollouts")
    curator = config.curator
    if isinstance(curator, GeoAlignConfig) and not curator.observe_only and curator.strategy == "replace":
        for name, count in (("pairs", totals.pairs), ("replaced rollouts", totals.replaced)):
            if not count:
                raise GeoAlignError(f"smoke test: expected {name}, got none in {totals.rollouts} rollouts")
    corruption = f"flip {config.reward.flip:g}, extremes {config.reward.extremes:g}"
    parts = [f"{totals.mixed_groups} groups with rewards that differ"]
    parts += [f"{totals.pairs} pairs"] if totals.pairs is not None else []
    parts += [f"{totals.replaced} rollouts replaced"] if totals.replaced is not None else []
    console.print(
        f"Smoke test: tiny model, corrupted rewards ({corruption}), {totals.rollouts} rollouts: {', '.join(parts)}. "
        f"It shows that the path runs; its numbers say nothing about the method.",
        soft_wrap=True,
    )
    return totals


def _exercised(folder: RunFolder) -> Exercised:
    rollouts = mixed = 0
    for step in read_rollouts(folder.rollouts):
        groups = [step.reward[(step.group == group) & ~np.isnan(step.reward)] for group in np.unique(step.group)]
        rollouts += len(step)
        mixed += sum(len(np.unique(rewards)) > 1 for rewards in groups)
    lines = [line for line in read_lines(folder.metrics) if line.get("stage") == "rl"]
    return Exercised(rollouts, mixed, _sum(lines, "geoalign/pairs"), _sum(lines, "geoalign/replaced"))


def _sum(lines: list[dict[str, Any]], key: str) -> int | None:
    values = [line[key] for line in lines if line.get(key) is not None]
    return int(sum(values)) if values else None


def _few_rows(task: Any) -> Any:
    """The task cut to its first rows, where it reads files."""
    known = {item.name for item in fields(task)}
    changes: dict[str, Any] = {}
    if "limit" in known:
        changes["limit"] = min(task.limit or _ROWS, _ROWS)
    if getattr(task, "rl_prompts", None) is not None:
        changes["rl_prompts"] = min(task.rl_prompts, _ROWS // 4)
    return replace(task, **changes)


def _kept(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in without_gpu(options).items() if name not in _RESIZED}


def _short_stage(options: Mapping[str, Any], **small: Any) -> dict[str, Any]:
    return {**_kept(options), "max_steps": 2, "save_steps": 2, **small}


def _short_evaluation(settings: EvaluationConfig) -> EvaluationConfig:
    def few(samples: Any) -> Any:
        return (
            {name: min(count, 2) for name, count in samples.items()} if isinstance(samples, dict) else min(samples, 2)
        )

    return replace(
        settings,
        every=1,
        problems=_PROBLEMS,
        samples=few(settings.samples),
        pass_samples=None if settings.pass_samples is None else few(settings.pass_samples),
        max_new_tokens=_RESPONSE,
    )
