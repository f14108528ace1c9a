"""Before a full-size run: `--dry-run` checks what needs no weights and prints the plan, `--smoke` makes it small."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from geoalign.answers.messages import rendered
from geoalign.console.terminal import Console, say_paragraph
from geoalign.curators.geoalign import GeoAlignConfig
from geoalign.errors import GeoAlignError
from geoalign.files.json_files import read_json, read_lines
from geoalign.lab.data.tasks import make_task
from geoalign.lab.models.language_model import initial_tokenizer
from geoalign.lab.models.process_setup import Processes
from geoalign.lab.models.settings import TinyModelConfig
from geoalign.lab.rewards.settings import RewardModelConfig
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.train.options import GRPO, check_options, generation_shape, trainer_options, without_gpu
from geoalign.lab.train.plan import Plan, make_plan, prompt_lengths
from geoalign.lab.train.settings import LaunchConfig, RunConfig
from geoalign.settings.locations import NOWHERE, Locations
from geoalign.text import visible

# Of a smoke test: rollouts in a generation, rows of a file, tokens of a prompt and of a response, and the share of
# corrupted rewards: enough that groups are mixed, though the tiny model answers nothing right.
_ROLLOUTS, _ROWS, _PROMPT, _RESPONSE, _CORRUPTED = 256, 512, 256, 8, 0.4

# Options that say how long to train or on how much at once, or that need an account.
_RESIZED = (
    "num_train_epochs",
    "gradient_accumulation_steps",
    "generation_batch_size",
    "num_iterations",
    "logging_steps",
    "report_to",
)


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
    """
    processes = config.launch.processes or Processes.launched().count
    plan = make_plan(
        _as_launched(config, processes, locations), RunFolder(Path("dry-run")), console, locations, ask=False
    )
    options = config.model.chat_template_kwargs
    tokenizer = initial_tokenizer(config.model, alphabet=plan.task.alphabet, words=plan.task.words)
    first = plan.problems[plan.order[0]]
    text = Text(visible(rendered(first.prompt, tokenizer, options), limit=4000))
    console.print(Panel(text, title=Text(f"First prompt ({first.id})"), title_align="left"))
    table = Table(title="The plan", title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for row in _rows(plan, processes, tokenizer):
        table.add_row(*row)
    console.print(table)
    if config.reward.model.url is not None:
        console.print(Text("Not checked: the reward's server, which need not run yet.", style="yellow"), soft_wrap=True)
    console.print("Launch with:", style="bold")
    console.print(Text(launch_command(config, config_file, overrides, output)), soft_wrap=True)


def default_folder(config: RunConfig, config_file: Path | None, *, smoke: bool = False) -> Path:
    """The run folder where none is named on the command line: `output.folder`, or one below `runs`.

    A smoke test has one of its own beside it: in the run's folder it would keep the run from starting.
    """
    folder = Path(config.output.folder or Path("runs") / (config_file.stem if config_file else "default"))
    return folder.with_name(f"smoke_{folder.name}") if smoke else folder


def launch_command(
    config: RunConfig, config_file: Path | None, overrides: Sequence[str], output: Path | None = None
) -> str:
    """The command that starts the run as `launch` says: accelerate's settings file, so many processes, or plainly."""
    arguments = ["train", *([str(config_file)] if config_file else [])]
    for override in overrides:
        arguments += ["--set", override]
    folder = output or default_folder(config, config_file)
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
    if isinstance(size := {**GRPO, **config.grpo}["per_device_train_batch_size"], int):
        size = size * processes // Processes.launched().count
        sections["grpo"] = {**sections["grpo"], "per_device_train_batch_size": size}
    return replace(config, **sections)


def _rows(plan: Plan, processes: int, tokenizer: Any) -> list[tuple[str, str]]:
    config, task, shape, steps = plan.config, plan.task, plan.generation, plan.grpo.max_steps

    def lengths(items: Sequence[Any]) -> str:
        found = prompt_lengths(items, tokenizer, config.model.chat_template_kwargs) or [0]
        middle, high = np.percentile(found, [50, 99])
        return f"median {middle:.0f}, 99% below {high:.0f}, longest {max(found):,} tokens"

    pairs = {"reward_model": task.preference_pairs, "gold_model": task.gold_pairs}
    made = "trained on" if config.reward_head is None else "its head fitted to"
    generations, rollouts = math.ceil(steps / shape.updates), shape.prompts * shape.samples
    on_processes = "" if processes == 1 else f", {processes} processes"
    every = "" if config.evaluation.every is None else f", every {config.evaluation.every} updates"
    rows = [
        ("warm start", f"{len(task.demonstrations):,} demonstrations" if config.sft is not None else "none"),
        *((name.replace("_", " "), f"{made} {len(pairs[name]):,} preference pairs") for name in plan.learned),
        ("training prompts", f"{len(plan.problems):,}: {lengths(plan.problems)}"),
        ("a generation", f"{shape.prompts} prompts x {shape.samples} = {rollouts:,} rollouts{on_processes}"),
        ("updates", f"{steps:,} in {generations:,} generations, {shape.updates} on each"),
        ("rollouts", f"{rollouts * generations:,}, of at most {shape.longest:,} tokens"),
        ("curator", config.curator.type),
        ("evaluations", f"before and after RL{every}"),
        ("checkpoints", f"every {plan.grpo.save_steps:g} updates"),
    ]
    if plan.labelled_rollouts is not None:
        groups = len(plan.labelled_rollouts.group_numbers.unique())
        rows.append(("labelled_rollouts", f"{len(plan.labelled_rollouts):,} rollouts of {groups:,} prompts"))
    for name, problems in plan.evaluation_sets.items():
        samples, last = (config.evaluation.samples_of(name, last=end) for end in (False, True))
        after = "" if samples == last else f", {last} after RL"
        rows.append((f"evaluation: {name}", f"{len(problems):,} problems x {samples}{after}: {lengths(problems)}"))
    return rows


def smoke_config(config: RunConfig) -> RunConfig:
    """The same run with a tiny model in fp32, no vLLM, short responses, small batches, and at least 0.4 of the rewards
    corrupted.

    Curator, data, loss, learning rates and updates per generation stay; any reward model named gives way to one that
    the run trains itself, in two steps; labelled rollouts, perhaps too long for a model of characters, are left out.
    """
    reward, task = config.reward, _few_rows(config.task)
    if reward.function is None:
        kind = "extremes" if make_task(task, seed=config.seed).preference_pairs else "flip"
        changes: dict[str, Any] = {"flip": 0.0, "extremes": 0.0, kind: max(getattr(reward, kind), _CORRUPTED)}
        reward = replace(reward, **changes)
    shape = generation_shape(trainer_options("grpo", without_gpu(config.grpo), seed=config.seed, folder=Path()))
    updates, size = shape.updates, max(1, _ROLLOUTS // (shape.updates * shape.samples)) * shape.samples
    short_stage = {"max_steps": 2, "save_steps": 2, "per_device_train_batch_size": 4, "max_length": 256}
    return replace(
        config,
        model=TinyModelConfig(hidden_size=32, layers=2, heads=2, max_length=4096),
        max_prompt_length=min(config.max_prompt_length or _PROMPT, _PROMPT),
        task=task,
        reward=replace(reward, model=RewardModelConfig()),
        labelled_rollouts=None,
        sft=None if config.sft is None else {**_kept(config.sft), **short_stage},
        reward_model={**_kept(config.reward_model), **short_stage},
        gold_model=config.gold_model and {**_kept(config.gold_model), **short_stage},
        reward_head=None,
        grpo={
            **_kept(config.grpo),
            "max_completion_length": _RESPONSE,
            "per_device_train_batch_size": size,
            "steps_per_generation": updates,
            "max_steps": 3 * updates,
            "save_steps": updates,
        },
        evaluation=replace(
            config.evaluation, every=1, problems=2, samples=2, pass_samples=None, max_new_tokens=_RESPONSE
        ),
        launch=LaunchConfig(),
    )


def check_exercised(config: RunConfig, folder: RunFolder, console: Console) -> None:
    """Says what the curator had to do; GeoAlignError where it had nothing: such a smoke test would prove nothing."""
    done, curator = read_json(folder.summary)["curator"], config.curator
    alike = [value for line in read_lines(folder.metrics) if (value := line.get("frac_reward_zero_std")) is not None]
    counts = {"pairs": done["pairs"], "replaced rollouts": done["replaced"]}
    acts = isinstance(curator, GeoAlignConfig) and curator.strategy == "replace"
    for name, count in {"groups whose rewards differ": len(alike) - sum(alike), **(counts if acts else {})}.items():
        if not count:
            raise GeoAlignError(f"smoke test: expected {name}, got none")
    said = "".join(f", {int(count)} {name}" for name, count in counts.items() if count is not None)
    say_paragraph(
        console,
        f"Smoke test: tiny model, wrong rewards{said}. It shows that the path runs; its numbers say nothing about the "
        "method.",
    )


def _few_rows(task: Any) -> Any:
    changes: dict[str, Any] = {}
    if hasattr(task, "limit"):
        changes["limit"] = min(task.limit or _ROWS, _ROWS)
    if getattr(task, "rl_prompts", None) is not None:
        changes["rl_prompts"] = min(task.rl_prompts, _ROWS // 4)
    return replace(task, **changes)


def _kept(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in without_gpu(options).items() if name not in _RESIZED}
