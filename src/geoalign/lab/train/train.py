"""One run from settings to report: warm start, evaluation, RL with a curator, evaluation, report.

It starts in a vacant folder, from another run's models, or where it was when its last mark was made. A kill at any
moment leaves the marks whole (a mark is written last), logs that are at most longer than their mark says, and files
that no mark knows: going on cuts the logs and removes the files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from geoalign.console.terminal import Console, say
from geoalign.errors import ConfigError, RunFolderError
from geoalign.files.durable import HALF_WRITTEN, LOCK, beside, locked, replace_folder
from geoalign.files.json_files import read_json, write_json
from geoalign.lab.models.process_setup import Processes, make_repeatable, use_one_device
from geoalign.lab.models.settings import TinyModelConfig
from geoalign.lab.runs.folder import (
    MARK,
    STAGES,
    RunFolder,
    last_moment,
    models_by_stage,
    next_stage,
    note_records,
    prune,
    stage_checkpoints,
)
from geoalign.lab.runs.resuming import check_same_settings, first_difference
from geoalign.lab.train.evaluations import evaluation_stage, reference_stage
from geoalign.lab.train.observed_reward import reward_source
from geoalign.lab.train.options import located
from geoalign.lab.train.page import build_run_report
from geoalign.lab.train.plan import Plan, make_plan
from geoalign.lab.train.policy import policy_stage
from geoalign.lab.train.settings import RunConfig
from geoalign.lab.train.summary import print_summary, summarise
from geoalign.lab.train.supervised import reward_model_stages, warm_start_stage
from geoalign.pretrained.fastest_dtype import fastest_dtype, print_fastest_dtype
from geoalign.pretrained.quiet import silence_logs
from geoalign.settings.loading import plain_settings
from geoalign.settings.locations import NOWHERE, Locations

# The settings that decide what the shared stages make.
_SHARED = ("model", "task", "sft", "reward_model", "gold_model", "reward_head", "max_prompt_length")


def train(
    config: RunConfig,
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
        resume: go on with an unfinished run; where there is none, one is started.
        shared: a run folder whose finished warm start (and reward model) this run starts from, such as `prepare` makes;
            it may have another seed. Remembered for a resumption, which needs it only until they are taken over.
        report: also draw the figures and the page, and print the closing table.
    """
    processes, folder = Processes.launched(), RunFolder(root)
    console = (console or Console()) if processes.is_main else Console(quiet=True)
    with _held(folder, processes, resume=resume):
        _check_unchanged(config, folder, processes)
        if folder.finished():
            console.print(
                f"The run in {folder.root} is finished: its report is rebuilt, nothing is trained.", soft_wrap=True
            )
        else:
            plan = _started(config, folder, shared, locations or NOWHERE, console)
            warm_start_stage(plan)
            reward_model_stages(plan)
            with reward_source(plan) as source:
                # With vLLM the trainer's own engine does both, once it has been started (`InTraining`).
                if not plan.grpo.use_vllm:
                    evaluation_stage(plan, source, folder.warm_started, "before_rl", 0)
                    reference_stage(plan, source)
                policy_stage(plan, source)
                evaluation_stage(plan, source, folder.final, "after_rl", plan.grpo.max_steps)
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
    """Runs, or goes on with, only the stages before RL, which many runs can share (`train(..., shared=root)`)."""
    processes, folder = Processes.launched(), RunFolder(root)
    with _held(folder, processes, resume=True):
        _check_unchanged(config, folder, processes)
        console = (console or Console()) if processes.is_main else Console(quiet=True)
        plan = _started(config, folder, None, NOWHERE, console)
        warm_start_stage(plan)
        reward_model_stages(plan)


@contextmanager
def _held(folder: RunFolder, processes: Processes, *, resume: bool) -> Iterator[None]:
    """Keeps other runs out of the folder. The first process asks for all: the others come while it may be writing."""
    if not processes.is_main:
        yield
        return
    check_vacant(folder, resume=resume)
    with locked(folder.root):
        yield


def _check_unchanged(config: RunConfig, folder: RunFolder, processes: Processes) -> None:
    """Raises ConfigError unless the settings are those of the run's start, where there was one."""
    if processes.is_main and folder.started():
        check_same_settings(plain_settings(config), folder.read_config(), folder.root)


def _started(config: RunConfig, folder: RunFolder, shared: Path | None, locations: Locations, console: Console) -> Plan:
    """The plan of a run whose folder has its settings and nothing that it will write again, ready for its stages."""
    processes = Processes.launched()
    if config.launch.processes not in (None, processes.count):
        expected = f"expected a launch of {config.launch.processes} processes, which the batch is made for"
        hint = "--dry-run prints the command; --set launch.processes=null takes any number"
        raise located(locations, "launch.processes", f"{expected}, got {processes.count}: {hint}")
    # Checkpoints hold one state of the random generators per process, and the batch is made of their shares.
    if folder.started() and (then := folder.read_versions().get("processes", 1)) != processes.count:
        raise RunFolderError(f"{folder.root}: expected {then} processes, as the run was started, got {processes.count}")
    begun = Path(folder.read_versions().get("shared", shared)).name if shared and folder.started() else None
    if shared and begun not in (None, shared.name):
        raise RunFolderError(f"{folder.root}: expected to go on from {begun}, as it was begun, got {shared.name}")
    silence_logs()
    if processes.count == 1:
        use_one_device()
    # The settings are checked whole before a file is written.
    bf16 = _computes_in_bfloat16(config, folder, shared, console)
    plan = make_plan(config, folder, console, locations, bf16=bf16)
    settings, origin = plain_settings(config), _origin(folder, shared)
    if origin is not None:
        check_shared(origin, settings)
    if processes.is_main:
        if folder.started():
            go_back(folder, console, keep=config.output.keep_checkpoints)
        else:
            own = torch.get_num_threads()
            folder.initialise(settings, threads=own, processes=processes.count, shared=shared, bf16=bf16)
        if (origin := _origin(folder, shared)) is not None:
            take_shared(origin, folder, learned=plan.learned)
    processes.barrier()
    make_repeatable(config.seed, threads=folder.read_versions()["threads"])
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


def _origin(folder: RunFolder, shared: Path | None) -> RunFolder | None:
    """The run whose warm start is to be taken over; None where there is none, or the folder has one."""
    if folder.warm_started.is_dir():
        return None
    if shared is None and folder.started():
        shared = folder.read_versions().get("shared")
    return None if shared is None else RunFolder(Path(shared))


def check_vacant(folder: RunFolder, *, resume: bool) -> None:
    """Raises RunFolderError unless a run may start or go on here; a folder of other files is refused either way."""
    if folder.started():
        folder.read_versions()
        if not resume and not folder.finished():
            raise RunFolderError(
                f"{folder.root}: expected a new folder, got one with an unfinished run: "
                f"resume it with --resume, or choose another --output"
            )
        return
    if folder.root.exists() and not folder.root.is_dir():
        raise RunFolderError(f"{folder.root}: expected a folder, got a file")
    # What a run leaves that was killed before it had written its first two files. No config.yaml: alone it is more
    # likely a user's own file than ours.
    early = {LOCK, folder.versions.name}
    names = sorted(item.name for item in folder.root.iterdir()) if folder.root.is_dir() else []
    if others := [name for name in names if name not in early and not name.endswith(HALF_WRITTEN)]:
        raise RunFolderError(
            f"{folder.root}: expected a new or empty folder or that of a run, got one with {others[0]} "
            f"and no run: choose another --output"
        )


def go_back(folder: RunFolder, console: Console, *, keep: int | None = None) -> None:
    """Takes a run back to its newest moment: what it has written since is removed, and so never written twice.

    Of each stage's checkpoints the newest `keep` stay (None: all that are complete).
    """
    moment, noted = last_moment(folder)
    if noted is not None and noted.name == MARK:
        say(console, f"Resuming from {noted.parent.relative_to(folder.root).as_posix()}.")
    for checkpoints in stage_checkpoints(folder).values():
        prune(checkpoints, keep)
    for stage, model in models_by_stage(folder).items():
        # One that the run was killed over, before it had noted it, is made again.
        if STAGES.index(stage) >= STAGES.index(moment.stage) and model.is_dir():
            shutil.rmtree(model)
    folder.drop_half_written()
    for log, size in ((folder.metrics, moment.metrics), (folder.evaluation, moment.evaluation)):
        if log.is_file() and log.stat().st_size > size:
            os.truncate(log, size)
    if moment.stage != "done":
        # A generation made after N updates is of step N: it follows the checkpoint of step N, which therefore lacks it.
        folder.drop_steps(moment.step if moment.stage == "rl" else 0)


def check_shared(shared: RunFolder, settings: Mapping[str, Any]) -> None:
    """Raises unless a run with these resolved settings may start from what lies in `shared`; the seed may differ where
    the task has its own: evaluation problems of one seed may be demonstrations of another."""
    if not shared.started() or not shared.warm_started.is_dir():
        raise RunFolderError(f"{shared.root}: expected a run folder with a finished warm start, got none there")
    sections = list(_SHARED)
    if "seed" in (task := settings.get("task", {})) and task["seed"] is None:
        sections.append("seed")
    now, then = (
        {name: values[name] for name in sections if name in values} for values in (settings, shared.read_config())
    )
    if (difference := first_difference(now, then)) is not None:
        key, new, old = difference
        raise ConfigError(f"{key}: expected {old}, as the shared run in {shared.root} was made with, got {new}")


def take_shared(shared: RunFolder, folder: RunFolder, *, learned: Sequence[str] = ()) -> None:
    """Puts the warm start (and reward model and gold model, where there are) of `shared` into `folder`, where it lacks
    them, each whole or not at all; `learned` names the run's stages that make a reward model or a gold model."""
    for model in (folder.reward_model, folder.gold_model, folder.warm_started):
        origin = shared.checkpoints / model.name
        if model.is_dir() or not origin.is_dir():
            continue
        written = beside(model)
        if written.exists():
            shutil.rmtree(written)
        shutil.copytree(origin, written, copy_function=_link_or_copy)
        replace_folder(written, model)
    note_records(folder, next_stage(folder, learned), 0)


def _link_or_copy(source: str, target: str) -> None:
    # Neither run ever writes into these files again.
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
