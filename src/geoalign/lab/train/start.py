"""Where a run begins: in a vacant folder, with another run's models, or where it was when its last mark was written.

A kill at any moment leaves the marks whole (a mark is written last), logs that are at most longer than their mark says,
and files that no mark knows. To resume, the logs are cut to these lengths and the files are removed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from geoalign.console.terminal import Console, say
from geoalign.errors import ConfigError, RunFolderError
from geoalign.files.durable import HALF_WRITTEN, LOCK, locked, replace_folder, temporary_path
from geoalign.lab.models.process_setup import Processes
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
from geoalign.lab.runs.resuming import check_same_settings
from geoalign.lab.train.settings import RunConfig
from geoalign.settings.loading import plain_settings


@contextmanager
def held_folder(folder: RunFolder, processes: Processes, *, resume: bool) -> Iterator[None]:
    """Keeps other runs out of the folder for the block; RunFolderError where this run may not start or resume there.

    The first process asks for all: the others come while it may be writing.
    """
    if not processes.is_main:
        yield
        return
    check_vacant(folder, resume=resume)
    with locked(folder.root):
        yield


def check_vacant(folder: RunFolder, *, resume: bool) -> None:
    """Raises RunFolderError unless a run may start or resume here; a folder of other files is refused either way."""
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
    others = [name for name in names if name not in early and not name.endswith(HALF_WRITTEN)]
    if others:
        raise RunFolderError(
            f"{folder.root}: expected a new or empty folder or that of a run, got one with {others[0]} "
            f"and no run: choose another --output"
        )


def check_unchanged(config: RunConfig, folder: RunFolder, processes: Processes) -> None:
    """Raises ConfigError unless the settings are those of the run's start, where there was one."""
    if processes.is_main and folder.started():
        check_same_settings(plain_settings(config), folder.read_config(), folder.root)


def check_launch(config: RunConfig, folder: RunFolder, processes: Processes) -> None:
    """Raises an error where the number of processes is not that of the settings or of the run's start.

    Checkpoints hold one state of the random generators per process, and the batch is made of the processes' shares.
    """
    if config.launch.processes not in (None, processes.count):
        raise ConfigError(
            f"launch.processes: expected a launch of {config.launch.processes} processes, which the batch is made for, "
            f"got {processes.count}: --dry-run prints the command; --set launch.processes=null takes any number"
        )
    if not folder.started():
        return
    started_with = folder.read_versions().get("processes", 1)
    if started_with != processes.count:
        raise RunFolderError(
            f"{folder.root}: expected {started_with} processes, as the run was started, got {processes.count}"
        )


def rewind(folder: RunFolder, console: Console, *, keep: int | None = None) -> None:
    """Takes a run back to its newest moment: what it has written since is removed, and so never written twice.

    Of each stage's checkpoints the newest `keep` stay (None: all that are complete).
    """
    moment, noted = last_moment(folder)
    if noted is not None and noted.name == MARK:
        say(console, f"Resuming from {noted.parent.relative_to(folder.root).as_posix()}.")
    for checkpoints in stage_checkpoints(folder).values():
        prune(checkpoints, keep)
    for stage, model in models_by_stage(folder).items():
        # A model whose stage the run had not noted as done before it was killed is made again.
        if STAGES.index(stage) >= STAGES.index(moment.stage) and model.is_dir():
            shutil.rmtree(model)
    folder.drop_half_written()
    for log, size in ((folder.metrics, moment.metrics), (folder.evaluation, moment.evaluation)):
        if log.is_file() and log.stat().st_size > size:
            os.truncate(log, size)
    if moment.stage != "done":
        # A generation made after N updates is of step N: it follows the checkpoint of step N, which therefore lacks it.
        folder.drop_steps(moment.step if moment.stage == "rl" else 0)


def shared_run(folder: RunFolder, shared: Path | None) -> RunFolder | None:
    """The run whose warm start is to be taken over; None where there is none, or the folder has a warm start.

    `shared` is the folder that this start was given; a run that was started before remembers its own.
    """
    if folder.warm_started.is_dir():
        return None
    if shared is None and folder.started():
        shared = folder.read_versions().get("shared")
    if shared is None:
        return None
    run = RunFolder(Path(shared))
    if not run.started() or not run.warm_started.is_dir():
        raise RunFolderError(f"{run.root}: expected a run folder with a finished warm start, got none there")
    return run


def take_shared(shared: RunFolder, folder: RunFolder, *, learned: Sequence[str] = ()) -> None:
    """Puts the warm start (and reward model and gold model, where there are) of `shared` into `folder`, where it lacks
    them, each whole or not at all; `learned` names the run's stages that make a reward model or a gold model."""
    for model in (folder.reward_model, folder.gold_model, folder.warm_started):
        origin = shared.checkpoints / model.name
        if model.is_dir() or not origin.is_dir():
            continue
        copied = temporary_path(model)
        if copied.exists():
            shutil.rmtree(copied)
        shutil.copytree(origin, copied, copy_function=_link_or_copy)
        replace_folder(copied, model)
    note_records(folder, next_stage(folder, learned), 0)


def _link_or_copy(source: str, target: str) -> None:
    # Neither run ever writes into these files again.
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
