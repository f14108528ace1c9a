"""One run from settings to report: warm start, evaluation, RL with a curator, evaluation, report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from geoalign.config.loading import curator_name, parse_run_config, plain_run_config
from geoalign.config.places import Places
from geoalign.config.run import RunConfig
from geoalign.curators import make_curator
from geoalign.errors import UnsupportedError
from geoalign.experiments.lock import locked
from geoalign.experiments.resume import check_same_settings, check_vacant, cut_back
from geoalign.experiments.run_folder import RunFolder
from geoalign.experiments.stages import Run, evaluation_stage, policy_stage, warm_start_stage
from geoalign.experiments.summary import print_summary, summarise
from geoalign.reports import build_report
from geoalign.rewards.verified import VerifiedReward
from geoalign.tasks import make_task
from geoalign.training.files import read_json, write_json
from geoalign.training.options import generation_shape, grpo_options, plan_prompts, sft_options
from geoalign.training.quiet import quieten
from geoalign.training.randomness import make_repeatable, use_one_device


def train(
    config: RunConfig | None,
    root: Path,
    *,
    resume: bool = False,
    places: Places | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """Runs, or goes on with, one training in the folder `root`, and returns the content of its `summary.json`.

    A finished run is never trained again: its report is rebuilt and its table printed.

    Args:
        config: the settings; None: those that the run in `root` was started with.
        resume: go on with an unfinished run; where there is none, one is started.
        places: where each setting was written, for error messages.

    Raises:
        ConfigError: a setting is wrong, or differs from that of the run's start.
        RunFolderError: the folder holds an unfinished run and `resume` is not set, other files, or a run of a newer
            schema, or is in use by another process.
        UnsupportedError: more than one process.
    """
    console = console or Console()
    folder = RunFolder(root)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise UnsupportedError(
            f"geoalign train: expected one process, got WORLD_SIZE={os.environ['WORLD_SIZE']}: "
            f"for several, use GeoAlignGRPOTrainer in a script of your own (recipes/trl_grpo.py)"
        )
    check_vacant(folder, resume=resume)
    with locked(folder.root):
        check_vacant(folder, resume=resume)
        config = _settings(config, folder)
        plain = plain_run_config(config)
        if folder.started():
            check_same_settings(plain, folder.read_config(), folder.root)
        if folder.finished():
            console.print(
                f"The run in {folder.root} is finished: its report is rebuilt, nothing is trained.", soft_wrap=True
            )
        else:
            _train(config, plain, folder, places, console)
        summary = read_json(folder.summary)
        build_report(folder.root)
        print_summary(console, summary, curator_name(config.curator), folder.root)
    return summary


def _settings(config: RunConfig | None, folder: RunFolder) -> RunConfig:
    if config is not None:
        return config
    return parse_run_config(folder.read_config()) if folder.started() else RunConfig()


def _train(
    config: RunConfig, plain: dict[str, Any], folder: RunFolder, places: Places | None, console: Console
) -> None:
    quieten()
    use_one_device()
    # Everything that can be wrong with the settings is found before a file is written.
    sft = None
    if config.sft is not None:
        sft = sft_options(config.sft, seed=config.seed, folder=folder.sft_checkpoints, places=places)
    grpo = grpo_options(config.grpo, seed=config.seed, folder=folder.rl_checkpoints, places=places)
    task = make_task(config.task, seed=config.seed)
    for note in task.notes():  # reads the task's files, so that what is wrong with them shows now
        console.print(note, markup=False)
    shape = generation_shape(grpo)
    plan = plan_prompts(grpo, shape, len(task.train_problems()))
    # The plan has every prompt in its place, so TRL takes them in order.
    grpo.max_steps, grpo.shuffle_dataset = plan.max_steps, False
    curator = make_curator(config.curator)
    if folder.started():
        threads = folder.read_versions().get("threads")
        cut_back(folder)
    else:
        threads = torch.get_num_threads()
        folder.initialise(plain, threads=threads)
    make_repeatable(config.seed, threads=threads if isinstance(threads, int) else torch.get_num_threads())
    with VerifiedReward(config.reward) as verified:
        run = Run(config, folder, task, verified, curator, sft, grpo, shape, plan, console)
        warm_start_stage(run)
        evaluation_stage(run, folder.warm_started, "before_rl", 0)
        policy_stage(run)
        evaluation_stage(run, folder.final, "after_rl", plan.max_steps)
    write_json(folder.summary, summarise(folder))
