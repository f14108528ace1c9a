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

from geoalign.errors import ConfigError
from geoalign.lab.config.run import RunConfig
from geoalign.lab.models.models import initial_tokenizer
from geoalign.lab.models.processes import Processes
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.tasks.chat import rendered
from geoalign.lab.terminal import Console
from geoalign.lab.text import inert
from geoalign.lab.train.options import check_options, without_gpu
from geoalign.lab.train.plan import Plan, make_plan
from geoalign.lab.train.prompts import prompt_lengths
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

    Of a model on the hub only tokenizer and config are fetched.

    Raises:
        ConfigError, InputError: whatever the run itself would find wrong before it starts.
    """
    accelerate = config.launch.accelerate
    if accelerate is not None and not Path(accelerate).is_file():
        key = f"{locations.prefix('launch.accelerate')}launch.accelerate"
        raise ConfigError(f"{key}: expected accelerate's settings file, got {shown(accelerate)}: no such file")
    processes = config.launch.processes or Processes.launched().count
    plan = make_plan(
        _as_launched(config, processes, locations), RunFolder(Path("dry-run")), console, locations, ask=False
    )
    options = config.model.chat_template_kwargs
    tokenizer = initial_tokenizer(config.model, alphabet=plan.task.alphabet(), words=plan.task.words())
    first = plan.problems[plan.order[0]]
    text = Text(inert(rendered(first.prompt, tokenizer, options), limit=4000))
    console.print(Panel(text, title=Text(f"First prompt ({first.id})"), title_align="left"))
    table = Table(title="The plan", title_justify="left", show_header=False)
    for row in _rows(plan, processes, tokenizer):
        table.add_row(*row)
    console.print(table)
    if config.reward.model.url is not None:
        console.print(Text("Not checked: the reward's server, which need not run yet.", style="yellow"), soft_wrap=True)
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
    start = ["accelerate", "launch"]
    if config.launch.accelerate is not None:
        start += ["--config_file", config.launch.accelerate, "-m"]
    elif (config.launch.processes or 1) > 1:
        start += ["--num_processes", str(config.launch.processes), "-m"]
    else:
        start = []
    return shlex.join([*start, "geoalign", *arguments, "--output", str(folder)])


def _as_launched(config: RunConfig, processes: int, locations: Locations) -> RunConfig:
    """The settings under which this one process sees the batches that all processes of the launch will make, without
    options that only a GPU can check where there is none."""
    sections = {name: getattr(config, name) for name in ("sft", "reward_model", "gold_model", "grpo")}
    for name, options in sections.items():
        check_options(name, options or {}, locations)
    if not torch.accelerator.is_available():
        sections = {name: options and without_gpu(options) for name, options in sections.items()}
    if isinstance(size := config.grpo.get("per_device_train_batch_size"), int):
        size = size * processes // Processes.launched().count
        sections["grpo"] = {**sections["grpo"], "per_device_train_batch_size": size}
    return replace(config, **sections)


def _rows(plan: Plan, processes: int, tokenizer: Any) -> list[tuple[str, str]]:
    config, task, shape, steps = plan.config, plan.task, plan.generation, plan.grpo.max_steps

    def lengths(items: Sequence[Any]) -> str:
        found = prompt_lengths(items, tokenizer, config.model.chat_template_kwargs) or [0]
        middle, high = np.percentile(found, [50, 99])
        return f"median {middle:.0f}, 99% below {high:.0f}, longest {max(found):,} tokens"

    pairs = {"reward_model": task.preference_pairs(), "gold_model": task.gold_pairs()}
    made = "trained on" if config.reward_head is None else "its head fitted to"
    generations, rollouts = math.ceil(steps / shape.updates), shape.prompts * shape.samples
    rows = [
        ("warm start", f"{len(task.demonstrations()):,} demonstrations" if config.sft is not None else "none"),
        *((name.replace("_", " "), f"{made} {len(pairs[name]):,} preference pairs") for name in plan.learned),
        ("training prompts", f"{len(plan.problems):,}: {lengths(plan.problems)}"),
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
        rows.append((f"evaluation: {name}", f"{len(problems):,} problems x {samples}{after}: {lengths(problems)}"))
    every = config.evaluation.every
    times = 2 + (0 if every is None else (steps - 1) // every)
    rows.append(("evaluations", f"{times:,}" + ("" if every is None else f", every {every} updates")))
    rows.append(("checkpoints", f"every {plan.grpo.save_steps:g} updates"))
    return rows
