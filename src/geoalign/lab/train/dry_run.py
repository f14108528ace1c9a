"""`geoalign train --dry-run`: checks what needs no weights, and prints the plan and the command that starts the run."""

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

from geoalign.answers.messages import rendered
from geoalign.console.terminal import Console
from geoalign.lab.data.task import Problem
from geoalign.lab.models.language_model import initial_tokenizer
from geoalign.lab.models.process_setup import Processes
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.train.options import GRPO, check_options, without_gpu
from geoalign.lab.train.plan import Plan, make_plan, prompt_lengths
from geoalign.lab.train.settings import RunConfig
from geoalign.text import visible

# Characters of the first prompt that are shown.
_LONGEST_SHOWN = 4000


def dry_run_training(
    config: RunConfig,
    console: Console,
    *,
    config_file: Path | None = None,
    overrides: Sequence[str] = (),
    output: Path | None = None,
) -> None:
    """Checks settings, files, prompts, lengths and rewards, and prints the plan; trains and writes nothing.

    Of a model on the hub only tokenizer and config are fetched. `config_file`, `overrides` and `output` are what the
    command was given, for the command that is printed.
    """
    processes = config.launch.processes or Processes.launched().count
    plan = make_plan(_as_launched(config, processes), RunFolder(Path("dry-run")), console, ask_server=False)
    tokenizer = initial_tokenizer(config.model, alphabet=plan.task.alphabet, words=plan.task.words)
    _print_first_prompt(console, plan, tokenizer)
    table = Table(title="The plan", title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for name, words in _plan_rows(plan, processes, tokenizer):
        table.add_row(name, words)
    console.print(table)
    if config.reward.model.url is not None:
        console.print(Text("Not checked: the reward's server, which need not run yet.", style="yellow"), soft_wrap=True)
    console.print("Launch with:", style="bold")
    console.print(Text(launch_command(config, config_file, overrides, output)), soft_wrap=True)


def default_folder(config: RunConfig, config_file: Path | None) -> Path:
    """The run folder where none is named on the command line: `output.folder`, or one below `runs`."""
    if config.output.folder is not None:
        return Path(config.output.folder)
    return Path("runs") / ("default" if config_file is None else config_file.stem)


def launch_command(
    config: RunConfig, config_file: Path | None, overrides: Sequence[str], output: Path | None = None
) -> str:
    """The command that starts the run as `launch` says: accelerate's settings file, so many processes, or plainly."""
    command = []
    if config.launch.accelerate is not None:
        command += ["accelerate", "launch", "--config_file", config.launch.accelerate, "-m"]
    elif (config.launch.processes or 1) > 1:
        command += ["accelerate", "launch", "--num_processes", str(config.launch.processes), "-m"]
    command += ["geoalign", "train"]
    if config_file is not None:
        command.append(str(config_file))
    for override in overrides:
        command += ["--set", override]
    command += ["--output", str(output or default_folder(config, config_file))]
    return shlex.join(command)


def _as_launched(config: RunConfig, processes: int) -> RunConfig:
    """The settings under which this one process sees the batches that all processes of the launch will make, without
    options that only a GPU can check where there is none."""
    sections = {"reward_model": config.reward_model, "gold_model": config.gold_model, "grpo": config.grpo}
    if config.sft is not None:
        sections["sft"] = config.sft
    for section, options in sections.items():
        check_options(section, options)
    rollouts = {**GRPO, **config.grpo}["per_device_train_batch_size"]
    rollouts_of_this_process = rollouts * processes // Processes.launched().count
    sections["grpo"] = {**config.grpo, "per_device_train_batch_size": rollouts_of_this_process}
    if not torch.accelerator.is_available():
        sections = {section: without_gpu(options) for section, options in sections.items()}
    changed: dict[str, Any] = sections
    return replace(config, **changed)


def _print_first_prompt(console: Console, plan: Plan, tokenizer: Any) -> None:
    """Prints the prompt of the first row of training in the chat template."""
    first = plan.problems[plan.order[0]]
    prompt = rendered(first.prompt, tokenizer, plan.config.model.chat_template_kwargs)
    text = Text(visible(prompt, limit=_LONGEST_SHOWN))
    console.print(Panel(text, title=Text(f"First prompt ({first.id})"), title_align="left"))


def _plan_rows(plan: Plan, processes: int, tokenizer: Any) -> list[tuple[str, str]]:
    """The rows of the printed plan: what each stage works on, and how much of it."""
    config = plan.config
    shape = plan.generation
    updates = plan.grpo.max_steps
    generations = math.ceil(updates / shape.updates)
    rollouts = shape.prompts * shape.samples

    warm_start = "none" if config.sft is None else f"{len(plan.task.demonstrations):,} demonstrations"
    rows = [("warm start", warm_start)]
    trained = "trained on" if config.reward_head is None else "its head fitted to"
    pairs = {"reward_model": plan.task.preference_pairs, "gold_model": plan.task.gold_pairs}
    for stage in plan.learned:
        rows.append((stage.replace("_", " "), f"{trained} {len(pairs[stage]):,} preference pairs"))
    on_processes = "" if processes == 1 else f", {processes} processes"
    every = "" if config.evaluation.every is None else f", every {config.evaluation.every} updates"
    rows += [
        ("training prompts", f"{len(plan.problems):,}: {_lengths(plan, plan.problems, tokenizer)}"),
        ("a generation", f"{shape.prompts} prompts x {shape.samples} = {rollouts:,} rollouts{on_processes}"),
        ("updates", f"{updates:,} in {generations:,} generations, {shape.updates} on each"),
        ("rollouts", f"{rollouts * generations:,}, of at most {shape.longest:,} tokens"),
        ("curator", config.curator.type),
        ("evaluations", f"before and after RL{every}"),
        ("checkpoints", f"every {plan.grpo.save_steps:g} updates"),
    ]
    if plan.labelled_rollouts is not None:
        groups = len(plan.labelled_rollouts.group_numbers.unique())
        rows.append(("labelled_rollouts", f"{len(plan.labelled_rollouts):,} rollouts of {groups:,} prompts"))
    for name, problems in plan.evaluation_sets.items():
        samples = config.evaluation.samples_of(name, last=False)
        last_samples = config.evaluation.samples_of(name, last=True)
        after = "" if samples == last_samples else f", {last_samples} after RL"
        words = f"{len(problems):,} problems x {samples}{after}: {_lengths(plan, problems, tokenizer)}"
        rows.append((f"evaluation: {name}", words))
    return rows


def _lengths(plan: Plan, problems: Sequence[Problem], tokenizer: Any) -> str:
    """The lengths of the problems' prompts in words."""
    lengths = prompt_lengths(problems, tokenizer, plan.config.model.chat_template_kwargs) or [0]
    middle, high = np.percentile(lengths, [50, 99])
    return f"median {middle:.0f}, 99% below {high:.0f}, longest {max(lengths):,} tokens"
