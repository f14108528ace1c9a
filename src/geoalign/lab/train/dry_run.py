"""`geoalign train --dry-run`: everything that can be checked without the weights, and what the run will come to."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from geoalign.lab.models.models import CODE_SETTING, initial_tokenizer
from geoalign.lab.models.processes import Processes
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.tasks import make_task
from geoalign.lab.tasks.chat import rendered
from geoalign.lab.terminal import Console
from geoalign.lab.text import inert
from geoalign.lab.train.options import check_options, without_gpu
from geoalign.lab.train.prompts import prompt_lengths
from geoalign.lab.train.reward_source import check_reward
from geoalign.lab.train.run import Run, make_run
from geoalign.pretrained import OwnCodeError, from_pretrained
from geoalign.settings.locations import NOWHERE, Locations
from geoalign.shown import shown


@dataclass(frozen=True)
class Lengths:
    """Lengths of prompts: of `unit` "tokens", or "characters" where the tokenizer is not at hand."""

    values: tuple[int, ...]
    unit: str

    def __str__(self) -> str:
        if not self.values:
            return "none"
        middle, high = np.percentile(self.values, [50, 99])
        return f"median {middle:.0f}, 99% below {high:.0f}, longest {max(self.values):,} {self.unit}"


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
    _check_head(config, locations)
    accelerate = config.launch.accelerate
    if accelerate is not None and not Path(accelerate).is_file():
        key = f"{locations.prefix('launch.accelerate')}launch.accelerate"
        raise ConfigError(f"{key}: expected accelerate's settings file, got {shown(accelerate)}: no such file")
    processes = config.launch.processes or Processes.launched().count
    checked, tokenizer, missing = _with_tokenizer(_as_launched(config, processes))
    run = make_run(checked, RunFolder(Path("dry-run")), console, locations)
    unchecked_reward = _unchecked_reward(run, locations)
    _print_prompts(run, tokenizer, console)
    console.print(_plan_table(run, config.curator.type, processes, tokenizer))
    for line in (missing, unchecked_reward):
        if line is not None:
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
    if config.launch.accelerate is not None:
        start = ["accelerate", "launch", "--config_file", config.launch.accelerate, "-m", "geoalign"]
    elif (config.launch.processes or 1) > 1:
        start = ["accelerate", "launch", "--num_processes", str(config.launch.processes), "-m", "geoalign"]
    else:
        start = ["geoalign"]
    return shlex.join([*start, *arguments])


def _check_head(config: RunConfig, locations: Locations) -> None:
    """Raises ConfigError where `reward_head` wants more layers than the model has, as far as its config is at hand."""
    if config.reward_head is None or config.reward_head.layers is None:
        return
    model, key = config.model, "reward_head.layers"
    try:
        there = _layers(model) if isinstance(model, PretrainedModelConfig) else model.layers
    except (OSError, ValueError):
        return
    if config.reward_head.layers > there:
        expected = f"expected at most the model's {there}, got {config.reward_head.layers}"
        raise ConfigError(f"{locations.prefix(key)}{key}: {expected}")


def _layers(model: PretrainedModelConfig) -> int:
    from transformers import AutoConfig

    code: dict[str, Any] = {"trust_remote_code": model.trust_remote_code, "setting": CODE_SETTING}
    settings = from_pretrained(AutoConfig, model.path, revision=model.revision, **code)
    return int(settings.get_text_config().num_hidden_layers)


def _as_launched(config: RunConfig, processes: int) -> RunConfig:
    """The settings under which this one process sees the batches that all processes of the launch will make."""
    if torch.accelerator.is_available():
        grpo, sft, learned, gold = dict(config.grpo), config.sft, config.reward_model, config.gold_model
    else:
        grpo, learned, gold = map(without_gpu, (config.grpo, config.reward_model, config.gold_model))
        sft = None if config.sft is None else without_gpu(config.sft)
    own = Processes.launched().count
    size = grpo.get("per_device_train_batch_size")
    if isinstance(size, int):
        grpo["per_device_train_batch_size"] = size * processes // own
    return replace(config, grpo=grpo, sft=sft, reward_model=learned, gold_model=gold)


def _with_tokenizer(config: RunConfig) -> tuple[RunConfig, Any, str | None]:
    """The settings, the tokenizer where it is at hand, and a line where it is not."""
    if not isinstance(config.model, PretrainedModelConfig):
        task = make_task(config.task, seed=config.seed)
        return config, initial_tokenizer(config.model, alphabet=task.alphabet(), words=task.words()), None
    try:
        return config, initial_tokenizer(config.model, alphabet=None), None
    except OwnCodeError:
        raise
    except ConfigError as error:
        reason = " ".join(str(error).split())[:300]
        return replace(config, max_prompt_length=None), None, f"lengths in tokens, and max_prompt_length: {reason}"


def _unchecked_reward(run: Run, locations: Locations) -> str | None:
    """What keeps the reward from being used now; a server need not run yet."""
    try:
        check_reward(run, locations)
    except (ConfigError, MissingExtraError) as error:
        if run.reward.model.url is None:
            raise
        return f"the reward's server: {error}"
    return None


def _lengths(items: Sequence[Any], tokenizer: Any, run: Run) -> Lengths:
    if tokenizer is None:
        counts = (sum(len(message["content"]) for message in item.prompt) for item in items)
        return Lengths(tuple(counts), "characters")
    return Lengths(tuple(prompt_lengths(items, tokenizer, run.model.chat_template_kwargs)), "tokens")


def _print_prompts(run: Run, tokenizer: Any, console: Console) -> None:
    first = run.problems[run.plan.order[0]]
    if tokenizer is None:
        text = "\n".join(f"[{message['role']}] {message['content']}" for message in first.prompt)
    else:
        text = rendered(first.prompt, tokenizer, run.model.chat_template_kwargs)
    console.print(Panel(Text(inert(text, limit=4000)), title=Text(f"First prompt ({first.id})"), title_align="left"))


def _plan_table(run: Run, curator: str, processes: int, tokenizer: Any) -> Table:
    table = Table(title="The plan", title_justify="left", show_header=False)
    plan, shape = run.plan, run.generation
    generations = math.ceil(plan.max_steps / shape.updates)
    rollouts = shape.prompts * shape.samples
    if run.sft is not None and (demonstrations := run.task.demonstrations()):
        updates = _sft_updates(run, len(demonstrations), processes)
        table.add_row("warm start", f"{len(demonstrations):,} demonstrations, {updates:,} updates")
    if run.reward_model is not None:
        made = f"{_made(run)} {len(run.task.preference_pairs()):,} preference pairs"
        table.add_row("reward model", f"{made}{_tested(run)}")
    if run.gold_model is not None:
        table.add_row("gold model", f"{_made(run)} {len(run.task.gold_pairs()):,} other pairs{_tested(run)}")
    table.add_row("training prompts", f"{len(run.problems):,}: {_lengths(run.problems, tokenizer, run)}")
    table.add_row(
        "a generation", f"{shape.prompts} prompts x {shape.samples} = {rollouts:,} rollouts, {processes} processes"
    )
    table.add_row("updates", f"{plan.max_steps:,} in {generations:,} generations, {shape.updates} on each")
    table.add_row("rollouts", f"{rollouts * generations:,}, of at most {shape.longest:,} tokens")
    table.add_row("curator", curator)
    if run.anchors is not None:
        groups = len(run.anchors.group_numbers.unique())
        table.add_row("anchors", f"{len(run.anchors):,} rollouts of {groups:,} prompts")
    for name, problems in run.evaluation_sets.items():
        samples, last = (run.evaluation.samples_of(name, last=end) for end in (False, True))
        after = "" if samples == last else f", {last} after RL"
        table.add_row(
            f"evaluation: {name}",
            f"{len(problems):,} problems x {samples}{after}: {_lengths(problems, tokenizer, run)}",
        )
    every = run.evaluation.every
    times = 2 + (0 if every is None else (plan.max_steps - 1) // every)
    table.add_row("evaluations", f"{times:,}" + ("" if every is None else f", every {every} updates"))
    table.add_row(
        "checkpoints",
        f"every {run.grpo.save_steps:g} updates, the last {run.output.keep_checkpoints or 'all'} kept",
    )
    return table


def _made(run: Run) -> str:
    return "trained on" if run.reward_head is None else "its head fitted to"


def _tested(run: Run) -> str:
    return f", {run.task.held_out_share:.0%} of them held out"


def _sft_updates(run: Run, rows: int, processes: int) -> int:
    options = run.sft
    assert options is not None
    if options.max_steps > 0:
        return int(options.max_steps)
    batch = options.per_device_train_batch_size * options.gradient_accumulation_steps * processes
    return math.ceil(rows / batch) * math.ceil(options.num_train_epochs)
