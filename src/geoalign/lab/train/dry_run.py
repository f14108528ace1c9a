"""`geoalign train --dry-run`: everything that can be checked without the weights, and what the run will come to."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from trl import GRPOConfig, RewardConfig, SFTConfig

from geoalign.errors import ConfigError, MissingExtraError
from geoalign.lab.config.run import PretrainedModelConfig, RunConfig
from geoalign.lab.models.models import initial_tokenizer
from geoalign.lab.models.processes import Processes
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.tasks import make_task
from geoalign.lab.tasks.chat import rendered
from geoalign.lab.terminal import Console
from geoalign.lab.text import inert
from geoalign.lab.train.options import check_options, without_gpu
from geoalign.lab.train.plan import Plan, check_reward, make_plan
from geoalign.lab.train.prompts import prompt_lengths
from geoalign.pretrained import OwnCodeError
from geoalign.settings.locations import NOWHERE, Locations
from geoalign.shown import shown


def dry_run(
    config: RunConfig,
    console: Console,
    *,
    locations: Locations = NOWHERE,
    config_file: Path | None = None,
    overrides: Sequence[str] = (),
    output: Path | None = None,
) -> None:
    """Checks settings, files, prompts, lengths and rewards, and prints the plan; trains and writes nothing.

    Of a model on the hub only tokenizer and config are fetched; where they are not to be had, lengths are counted in
    characters, and the plan says so. Options that only a GPU can check are checked when there is one.

    Raises:
        ConfigError, InputError: whatever the run itself would find wrong before it starts.
    """
    # Also those that are left out below where there is no GPU.
    check_options(GRPOConfig, "grpo", config.grpo, locations)
    check_options(SFTConfig, "sft", config.sft or {}, locations)
    check_options(RewardConfig, "reward_model", config.reward_model, locations)
    check_options(RewardConfig, "gold_model", config.gold_model, locations)
    accelerate = config.launch.accelerate
    if accelerate is not None and not Path(accelerate).is_file():
        key = f"{locations.prefix('launch.accelerate')}launch.accelerate"
        raise ConfigError(f"{key}: expected accelerate's settings file, got {shown(accelerate)}: no such file")
    processes = config.launch.processes or Processes.launched().count
    checked, tokenizer, unchecked = _with_tokenizer(_as_launched(config, processes))
    plan = make_plan(checked, RunFolder(Path("dry-run")), console, locations)
    try:
        check_reward(plan, locations)
    except (ConfigError, MissingExtraError) as error:
        if config.reward.model.url is None:
            raise
        unchecked.append(f"the reward's server: {error}")  # it need not run yet
    _print_first_prompt(plan, tokenizer, console)
    console.print(_table(plan, processes, tokenizer))
    for line in unchecked:
        console.print(Text(f"Not checked: {line}", style="yellow"), soft_wrap=True)
    console.print("Launch with:", style="bold")
    console.print(Text(launch_command(config, config_file, overrides, output)), soft_wrap=True)


def launch_command(
    config: RunConfig, config_file: Path | None, overrides: Sequence[str], output: Path | None = None
) -> str:
    """The command that starts the run as `launch` says: accelerate's settings file, so many processes, or plainly."""
    arguments = ["train", *([str(config_file)] if config_file else [])]
    for override in overrides:
        arguments += ["--set", override]
    folder = output or config.output.folder or f"runs/{config_file.stem if config_file else 'default'}"
    arguments += ["--output", str(folder)]
    start = ["geoalign"]
    if config.launch.accelerate is not None:
        start = ["accelerate", "launch", "--config_file", config.launch.accelerate, "-m", "geoalign"]
    elif (config.launch.processes or 1) > 1:
        start = ["accelerate", "launch", "--num_processes", str(config.launch.processes), "-m", "geoalign"]
    return shlex.join([*start, *arguments])


def _as_launched(config: RunConfig, processes: int) -> RunConfig:
    """The settings under which this one process sees the batches that all processes of the launch will make."""
    if not torch.accelerator.is_available():
        config = replace(
            config,
            grpo=without_gpu(config.grpo),
            reward_model=without_gpu(config.reward_model),
            gold_model=without_gpu(config.gold_model),
            sft=None if config.sft is None else without_gpu(config.sft),
        )
    size = config.grpo.get("per_device_train_batch_size")
    if not isinstance(size, int):
        return config
    grpo = {**config.grpo, "per_device_train_batch_size": size * processes // Processes.launched().count}
    return replace(config, grpo=grpo)


def _with_tokenizer(config: RunConfig) -> tuple[RunConfig, Any, list[str]]:
    """The settings, the tokenizer where it is at hand, and a line where it is not."""
    if not isinstance(config.model, PretrainedModelConfig):
        task = make_task(config.task, seed=config.seed)
        return config, initial_tokenizer(config.model, alphabet=task.alphabet(), words=task.words()), []
    try:
        return config, initial_tokenizer(config.model, alphabet=None), []
    except OwnCodeError:
        raise
    except ConfigError as error:
        reason = " ".join(str(error).split())[:300]
        return replace(config, max_prompt_length=None), None, [f"lengths in tokens, and max_prompt_length: {reason}"]


def _lengths(items: Sequence[Any], tokenizer: Any, plan: Plan) -> str:
    unit = "characters" if tokenizer is None else "tokens"
    if tokenizer is None:
        lengths = [sum(len(message["content"]) for message in item.prompt) for item in items]
    else:
        lengths = prompt_lengths(items, tokenizer, plan.config.model.chat_template_kwargs)
    if not lengths:
        return "none"
    middle, high = np.percentile(lengths, [50, 99])
    return f"median {middle:.0f}, 99% below {high:.0f}, longest {max(lengths):,} {unit}"


def _print_first_prompt(plan: Plan, tokenizer: Any, console: Console) -> None:
    first = plan.problems[plan.prompts.order[0]]
    if tokenizer is None:
        text = "\n".join(f"[{message['role']}] {message['content']}" for message in first.prompt)
    else:
        text = rendered(first.prompt, tokenizer, plan.config.model.chat_template_kwargs)
    console.print(Panel(Text(inert(text, limit=4000)), title=Text(f"First prompt ({first.id})"), title_align="left"))


def _table(plan: Plan, processes: int, tokenizer: Any) -> Table:
    config, task, shape, steps = plan.config, plan.task, plan.generation, plan.prompts.max_steps
    rows: list[tuple[str, str]] = []
    if plan.sft is not None and (demonstrations := task.demonstrations()):
        updates = _sft_updates(plan.sft, len(demonstrations), processes)
        rows.append(("warm start", f"{len(demonstrations):,} demonstrations, {updates:,} updates"))
    made = "trained on" if config.reward_head is None else "its head fitted to"
    tested = f", {task.held_out_share:.0%} of them held out"
    if plan.reward_model is not None:
        rows.append(("reward model", f"{made} {len(task.preference_pairs()):,} preference pairs{tested}"))
    if plan.gold_model is not None:
        rows.append(("gold model", f"{made} {len(task.gold_pairs()):,} other pairs{tested}"))
    generations, rollouts = math.ceil(steps / shape.updates), shape.prompts * shape.samples
    rows += [
        ("training prompts", f"{len(plan.problems):,}: {_lengths(plan.problems, tokenizer, plan)}"),
        ("a generation", f"{shape.prompts} prompts x {shape.samples} = {rollouts:,} rollouts, {processes} processes"),
        ("updates", f"{steps:,} in {generations:,} generations, {shape.updates} on each"),
        ("rollouts", f"{rollouts * generations:,}, of at most {shape.longest:,} tokens"),
        ("curator", config.curator.type),
    ]
    if plan.anchors is not None:
        groups = len(plan.anchors.group_numbers.unique())
        rows.append(("anchors", f"{len(plan.anchors):,} rollouts of {groups:,} prompts"))
    for name, problems in plan.evaluation_sets.items():
        samples, last = (config.evaluation.samples_of(name, last=end) for end in (False, True))
        after = "" if samples == last else f", {last} after RL"
        count = f"{len(problems):,} problems x {samples}{after}"
        rows.append((f"evaluation: {name}", f"{count}: {_lengths(problems, tokenizer, plan)}"))
    every = config.evaluation.every
    times = 2 + (0 if every is None else (steps - 1) // every)
    kept = config.output.keep_checkpoints or "all"
    rows += [
        ("evaluations", f"{times:,}" + ("" if every is None else f", every {every} updates")),
        ("checkpoints", f"every {plan.grpo.save_steps:g} updates, the last {kept} kept"),
    ]
    table = Table(title="The plan", title_justify="left", show_header=False)
    for row in rows:
        table.add_row(*row)
    return table


def _sft_updates(options: SFTConfig, rows: int, processes: int) -> int:
    if options.max_steps > 0:
        return int(options.max_steps)
    batch = options.per_device_train_batch_size * options.gradient_accumulation_steps * processes
    return math.ceil(rows / batch) * math.ceil(options.num_train_epochs)
