"""One run from settings to report: warm start, evaluation, RL with a curator, evaluation, report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from geoalign.errors import ConfigError
from geoalign.lab.config.loading import parse_run_config
from geoalign.lab.config.run import LaunchConfig, RunConfig, TinyModelConfig
from geoalign.lab.models.fastest_dtype import fastest_dtype, print_fastest_dtype
from geoalign.lab.models.process_setup import make_repeatable, silence_logs, use_one_device
from geoalign.lab.models.processes import Processes
from geoalign.lab.reports import build_report
from geoalign.lab.store.files import locked
from geoalign.lab.store.json_files import read_json, write_json
from geoalign.lab.store.run_folder import RunFolder, check_same_settings
from geoalign.lab.terminal import Console
from geoalign.lab.train.plan import Plan, check_reward, make_plan
from geoalign.lab.train.resume import check_same_processes, check_shared, check_vacant, go_back, take_shared
from geoalign.lab.train.rewards import reward_source
from geoalign.lab.train.stages.evaluations import evaluation_stage, reference_stage
from geoalign.lab.train.stages.policy import policy_stage
from geoalign.lab.train.stages.reward_model import gold_model_stage, reward_model_stage
from geoalign.lab.train.stages.warm_start import warm_start_stage
from geoalign.lab.train.summary import print_summary, summarise
from geoalign.settings.loading import plain_settings
from geoalign.settings.locations import NOWHERE, Locations


def train(
    config: RunConfig | None,
    root: Path,
    *,
    resume: bool = False,
    shared: Path | None = None,
    report: bool = True,
    locations: Locations | None = None,
    console: Console | None = None,
) -> dict[str, Any]:
    """Runs, or goes on with, one training in the folder `root`, and returns the content of its `summary.json`.

    A finished run is never trained again: its report is rebuilt and its table printed. Started by torchrun or
    `accelerate launch`, the processes train together: each calls it with the same arguments, the first one writes and
    prints.

    Args:
        config: the settings; None: those that the run in `root` was started with.
        resume: go on with an unfinished run; where there is none, one is started.
        shared: a run folder whose finished warm start (and reward model) this run starts from, such as `prepare` makes;
            it may have another seed. Remembered for a resumption, which needs it only until they are taken over.
        report: also draw the figures and the page, and print the closing table.
        locations: where each setting was written, for error messages.

    Raises:
        ConfigError: a setting is wrong, or differs from that of the run's start or of the shared run.
        RunFolderError: the folder holds an unfinished run and `resume` is not set, other files, or a run of a newer
            schema, was started with another number of processes, or is in use by another run; or `shared` has no
            finished warm start.
    """
    processes, folder = Processes.launched(), RunFolder(root)
    console = _console(console, processes)
    with _held(folder, processes, resume=resume):
        config = _resolved(config, folder, processes)
        if folder.finished():
            console.print(
                f"The run in {folder.root} is finished: its report is rebuilt, nothing is trained.", soft_wrap=True
            )
        else:
            plan = _started(config, folder, shared, locations or NOWHERE, console)
            _shared_stages(plan)
            _rl_stages(plan)
            if processes.is_main:
                # Last of all: until then a killed run is not finished.
                write_json(folder.summary, summarise(folder))
            processes.barrier()
        summary = read_json(folder.summary)
        if report and processes.is_main:
            build_report(folder.root)
            print_summary(console, summary, config.curator.type, folder.root)
    return summary


def prepare(
    config: RunConfig, root: Path, *, locations: Locations | None = None, console: Console | None = None
) -> None:
    """Runs, or goes on with, only the stages that many runs can share, in the folder `root`: warm start, reward model,
    gold model.

    They depend neither on the curator nor on the corruption nor, where the task has a seed, on the run's seed.
    `train(..., shared=root)` starts from them. Nothing is done where they are complete. Raises as `train`.
    """
    processes, folder = Processes.launched(), RunFolder(root)
    with _held(folder, processes, resume=True):
        config = _resolved(config, folder, processes)
        _shared_stages(_started(config, folder, None, locations or NOWHERE, _console(console, processes)))


def _shared_stages(plan: Plan) -> None:
    warm_start_stage(plan)
    reward_model_stage(plan)
    gold_model_stage(plan)


def _rl_stages(plan: Plan) -> None:
    with reward_source(plan) as source:
        # With vLLM the trainer's own engine does both, once it has been started (`InTraining`).
        if not plan.grpo.use_vllm:
            evaluation_stage(plan, source, plan.folder.warm_started, "before_rl", 0)
            reference_stage(plan, source)
        policy_stage(plan, source)
        evaluation_stage(plan, source, plan.folder.final, "after_rl", plan.prompts.max_steps)


def _console(console: Console | None, processes: Processes) -> Console:
    return (console or Console()) if processes.is_main else Console(quiet=True)


@contextmanager
def _held(folder: RunFolder, processes: Processes, *, resume: bool) -> Iterator[None]:
    """Keeps other runs out of the folder. The first process asks for all: the others come while it may be writing."""
    if not processes.is_main:
        yield
        return
    check_vacant(folder, resume=resume)
    with locked(folder.root):
        check_vacant(folder, resume=resume)
        yield


def _resolved(config: RunConfig | None, folder: RunFolder, processes: Processes) -> RunConfig:
    """The settings given, which must be those of the run's start where there was one; without any, those."""
    if not folder.started():
        return config or RunConfig()
    if config is None:
        return parse_run_config(folder.read_config())
    if processes.is_main:
        check_same_settings(plain_settings(config), folder.read_config(), folder.root)
    return config


def _started(config: RunConfig, folder: RunFolder, shared: Path | None, locations: Locations, console: Console) -> Plan:
    """The plan of a run whose folder has its settings and nothing that it will write again, ready for its stages."""
    processes = Processes.launched()
    _check_launch(config.launch, processes, locations)
    if folder.started() and processes.is_main:
        check_same_processes(folder, processes.count)
    silence_logs()
    if processes.count == 1:
        use_one_device()
    # The settings are checked whole before a file is written.
    bf16 = _computes_in_bfloat16(config, folder, shared, console)
    plan = make_plan(config, folder, console, locations, bf16=bf16)
    check_reward(plan, locations)
    settings, origin = plain_settings(config), _origin(folder, shared)
    if origin is not None:
        check_shared(origin, settings)
    if processes.is_main:
        if folder.started():
            go_back(folder, console)
        else:
            own = torch.get_num_threads()
            folder.initialise(settings, threads=own, processes=processes.count, shared=shared, bf16=bf16)
        if (origin := _origin(folder, shared)) is not None:
            take_shared(origin, folder, learned=plan.learned)
    processes.barrier()
    threads = folder.read_versions().get("threads")
    make_repeatable(config.seed, threads=threads if isinstance(threads, int) else torch.get_num_threads())
    return plan


def _computes_in_bfloat16(config: RunConfig, folder: RunFolder, shared: Path | None, console: Console) -> bool:
    """Whether a pretrained model computes in bfloat16 on this CPU: as at the start of the run, or of the shared one."""
    if isinstance(config.model, TinyModelConfig) or torch.accelerator.is_available():
        return False
    start = folder if folder.started() else _origin(folder, shared)
    if start is not None:
        return start.read_versions().get("bf16") is True
    print_fastest_dtype(console, "cpu")
    return fastest_dtype("cpu") == "bfloat16"


def _check_launch(launch: LaunchConfig, processes: Processes, locations: Locations) -> None:
    if launch.processes not in (None, processes.count):
        raise ConfigError(
            f"{locations.prefix('launch.processes')}launch.processes: expected a launch of {launch.processes} "
            f"processes, which the batch is made for, got {processes.count}: --dry-run prints the command; --set "
            f"launch.processes=null takes any number"
        )


def _origin(folder: RunFolder, shared: Path | None) -> RunFolder | None:
    """The run whose warm start is to be taken over; None where there is none, or the folder has one."""
    if folder.warm_started.is_dir():
        return None
    if shared is None and folder.started():
        remembered = folder.read_versions().get("shared")
        shared = Path(remembered) if isinstance(remembered, str) else None
    return None if shared is None else RunFolder(shared)
