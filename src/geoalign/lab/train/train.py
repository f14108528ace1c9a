"""One run from its settings to its report.

`train` reads as a run goes: it claims the folder, turns the settings into a plan that is checked whole, and runs the
stages. Each has a module of its own, does nothing where its result is there, and goes on from its last checkpoint:

1. `warm_start`: the model that RL starts from, `checkpoints/warm_start`;
2. `reward_models`: a reward model and a gold model, where the task has preference pairs;
3. `evaluations`: the evaluation before RL, and reference rewards where the curator needs them;
4. `policy`: RL with the curator, evaluations now and then, `checkpoints/final`;
5. `evaluations`: the evaluation after RL; then `summary`, `summary.json`, which makes the run finished.

How a killed run goes on, and from another run's warm start, is in `start`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from geoalign.console.terminal import Console
from geoalign.files.json_files import read_json, write_json
from geoalign.lab.models.process_setup import Processes, make_repeatable, use_one_device
from geoalign.lab.models.settings import TinyModelConfig
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.train.evaluations import evaluation_stage, reference_stage
from geoalign.lab.train.observed_reward import reward_source
from geoalign.lab.train.page import build_run_report
from geoalign.lab.train.plan import Plan, make_plan
from geoalign.lab.train.policy import policy_stage
from geoalign.lab.train.reward_models import reward_model_stages
from geoalign.lab.train.settings import RunConfig
from geoalign.lab.train.start import (
    check_launch,
    check_unchanged,
    held_folder,
    rewind,
    shared_run,
    take_shared,
)
from geoalign.lab.train.summary import print_summary, summarise
from geoalign.lab.train.warm_start import warm_start_stage
from geoalign.pretrained.fastest_dtype import fastest_dtype, print_fastest_dtype
from geoalign.pretrained.quiet import silence_logs
from geoalign.settings.loading import plain_settings


def train(
    config: RunConfig,
    root: Path,
    *,
    resume: bool = False,
    shared: Path | None = None,
    report: bool = True,
    console: Console | None = None,
) -> dict[str, Any]:
    """Runs, or resumes, one training in the folder `root`, and returns the content of its `summary.json`.

    A finished run is never trained again: its report is rebuilt and its table printed. Started by torchrun or
    `accelerate launch`, the processes train together: each calls it with the same arguments, the first one writes and
    prints.

    Args:
        resume: resume an unfinished run; where there is none, one is started.
        shared: a run folder whose finished warm start (and reward model) this run starts from, such as `prepare` makes;
            it may have another seed. Remembered for a resumption, which needs it only until they are taken over.
        report: also draw the figures and the page, and print the closing table.
    """
    folder = RunFolder(root)
    processes = Processes.launched()
    console = _console_of(processes, console)
    with held_folder(folder, processes, resume=resume):
        check_unchanged(config, folder, processes)
        if folder.finished():
            console.print(
                f"The run in {folder.root} is finished: its report is rebuilt, nothing is trained.", soft_wrap=True
            )
        else:
            plan = _begin(config, folder, shared, console)
            _run_stages(plan)
            if processes.is_main:
                # Last of all: until then a killed run is not finished.
                write_json(folder.summary, summarise(folder))
            processes.barrier()
        summary = read_json(folder.summary)
        if report and processes.is_main:
            build_run_report(folder.root)
            print_summary(console, summary, config.curator.type, folder.root)
    return summary


def prepare(config: RunConfig, root: Path, *, console: Console | None = None) -> None:
    """Runs, or resumes, only the stages before RL, which many runs can share (`train(..., shared=root)`)."""
    folder = RunFolder(root)
    processes = Processes.launched()
    with held_folder(folder, processes, resume=True):
        check_unchanged(config, folder, processes)
        plan = _begin(config, folder, None, _console_of(processes, console))
        warm_start_stage(plan)
        reward_model_stages(plan)


def _run_stages(plan: Plan) -> None:
    """All stages of a run in their order; each does nothing where its result is there."""
    warm_start_stage(plan)
    reward_model_stages(plan)
    with reward_source(plan) as source:
        # With vLLM the trainer's own engine does both, once it has been started (`policy.InTraining`).
        if not plan.grpo.use_vllm:
            evaluation_stage(plan, source, plan.folder.warm_started, "before_rl", 0)
            reference_stage(plan, source)
        policy_stage(plan, source)
        evaluation_stage(plan, source, plan.folder.final, "after_rl", plan.grpo.max_steps)


def _begin(config: RunConfig, folder: RunFolder, shared: Path | None, console: Console) -> Plan:
    """The plan of a run, after everything was checked and the folder brought to where the run starts or resumes.

    The settings are checked whole before a file is written. A new folder gets its settings and versions; of a killed
    run what it will write again is removed; with a shared start the folder gets that run's models.
    """
    processes = Processes.launched()
    check_launch(config, folder, processes)
    silence_logs()
    if processes.count == 1:
        use_one_device()
    origin = shared_run(folder, shared)
    bf16 = _computes_in_bfloat16(config, folder if folder.started() else origin, console)
    plan = make_plan(config, folder, console, bf16=bf16)
    if processes.is_main:
        if folder.started():
            rewind(folder, console, keep=config.output.keep_checkpoints)
        else:
            folder.initialise(
                plain_settings(config),
                threads=torch.get_num_threads(),
                processes=processes.count,
                shared=shared,
                bf16=bf16,
            )
        origin = shared_run(folder, shared)  # again: what was not noted as whole has just been removed
        if origin is not None:
            take_shared(origin, folder, learned=plan.learned)
    processes.barrier()
    make_repeatable(config.seed, threads=folder.read_versions()["threads"])
    return plan


def _computes_in_bfloat16(config: RunConfig, started: RunFolder | None, console: Console) -> bool:
    """Whether a pretrained model computes in bfloat16 on this CPU: as in the run, or the shared one, that was started
    before, on whatever CPU that was; otherwise as is faster here."""
    if isinstance(config.model, TinyModelConfig) or torch.accelerator.is_available():
        return False
    if started is not None:
        return started.read_versions().get("bf16") is True
    print_fastest_dtype(console, "cpu")
    return fastest_dtype("cpu") == "bfloat16"


def _console_of(processes: Processes, console: Console | None) -> Console:
    """The console of the first process; the others print nothing."""
    return (console or Console()) if processes.is_main else Console(quiet=True)
