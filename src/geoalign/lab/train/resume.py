"""Where a training starts: in a vacant folder, from another run's models, or where it was when its last mark was made.

A kill at any moment leaves the marks whole (a mark is written last), logs that are at most longer than their mark says,
and files that no mark knows: going on cuts the logs and removes the files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, RunFolderError
from geoalign.lab.store.files import HALF_WRITTEN, LOCK, beside, replace_folder, write_atomically
from geoalign.lab.store.records import STAGES, Records, made_models, next_stage, note_records, noted_records
from geoalign.lab.store.run_folder import RunFolder, first_difference
from geoalign.lab.store.seals import (
    MARK,
    NOTHING,
    checkpoint_folders,
    checkpoint_step,
    complete_checkpoints,
    read_mark,
    remove_checkpoint,
)
from geoalign.lab.terminal import Console

# The settings that decide what the shared stages make.
_SHARED = ("model", "task", "sft", "reward_model", "gold_model", "reward_head", "max_prompt_length")


def check_vacant(folder: RunFolder, *, resume: bool) -> None:
    """Raises RunFolderError unless a run may start or go on in this folder.

    An absent folder, an empty one, and one whose run was killed in its first moment are vacant. A started run needs
    `resume`; a folder of other files is refused either way.
    """
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
    names = [item.name for item in folder.root.iterdir()] if folder.root.is_dir() else []
    if others := sorted(name for name in names if name not in early and not name.endswith(HALF_WRITTEN)):
        raise RunFolderError(
            f"{folder.root}: expected a new or empty folder or that of a run, got one with {others[0]} "
            f"and no run: choose another --output"
        )


def check_same_processes(folder: RunFolder, count: int) -> None:
    """Raises RunFolderError unless the run was started with so many processes.

    Checkpoints hold one state of the random generators per process, and the batch is made of their shares.
    """
    started_with = folder.read_versions().get("processes", 1)
    if started_with != count:
        raise RunFolderError(f"{folder.root}: expected {started_with} processes, as the run was started, got {count}")


def go_back(folder: RunFolder, console: Console) -> None:
    """Takes a run back to its last mark: what followed is removed, so that nothing is written twice.

    Files that the run has not written itself stay.
    """
    records = _last_records(folder)
    if records.step:
        line = f"Resuming from update {records.step} of stage {records.stage}."
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for model in made_models(folder):
        if model.is_dir() and model.name not in records.made:
            shutil.rmtree(model)
    for stage, checkpoints in _checkpoints(folder).items():
        for path in checkpoint_folders(checkpoints):
            if not (path / MARK).is_file() or (STAGES.index(stage), checkpoint_step(path)) > records.rank:
                remove_checkpoint(path)
    folder.drop_half_written()
    for path, kept in ((folder.metrics, records.metrics), (folder.evaluation, records.evaluation)):
        if path.is_file() and path.stat().st_size > kept.size:
            with path.open("rb") as file:
                write_atomically(path, file.read(kept.size))
    for path, _ in folder.step_files():
        if path.name not in (records.rollouts if path.parent == folder.rollouts else records.details):
            path.unlink()


def _last_records(folder: RunFolder) -> Records:
    """What the run's own files held when its last mark was made: that of a checkpoint, or `records.json`."""
    found = [Records("sft", 0, start=NOTHING)]
    for checkpoints in _checkpoints(folder).values():
        if complete := complete_checkpoints(checkpoints):
            found.append(Records.of_plain(read_mark(complete[-1]).run))
    if (noted := noted_records(folder)) is not None:
        found.append(noted)
    # Of two with one rank, `records.json`, which has what followed the checkpoint.
    return max(reversed(found), key=lambda records: records.rank)


def _checkpoints(folder: RunFolder) -> dict[str, Path]:
    """Where each stage's checkpoints are, in the order of the stages."""
    return {
        "sft": folder.sft_checkpoints,
        "reward_model": folder.reward_model_checkpoints,
        "gold_model": folder.gold_model_checkpoints,
        "rl": folder.rl_checkpoints,
    }


def check_shared(shared: RunFolder, settings: Mapping[str, Any]) -> None:
    """Raises unless a run with these resolved settings may start from what lies in `shared`.

    The seed may differ, unless the task draws its problems from it (`task.seed` null): evaluation problems of one seed
    may be demonstrations of another.
    """
    if not shared.started() or not shared.warm_started.is_dir():
        raise RunFolderError(f"{shared.root}: expected a run folder with a finished warm start, got none there")
    sections = list(_SHARED)
    if "seed" in (task := settings.get("task", {})) and task["seed"] is None:
        sections.append("seed")
    now, then = (
        {name: values[name] for name in sections if name in values} for values in (settings, shared.read_config())
    )
    difference = first_difference(now, then)
    if difference is not None:
        key, new, old = difference
        raise ConfigError(f"{key}: expected {old}, as the shared run in {shared.root} was made with, got {new}")


def take_shared(shared: RunFolder, folder: RunFolder, *, learned: Sequence[str] = ()) -> None:
    """Puts the warm start (and reward model and gold model, where there are) of `shared` into `folder`, where it lacks
    them; `learned` names the run's stages that make a reward model or a gold model.

    Files are linked where the file system allows it, otherwise copied; neither run ever writes into them again. Each
    folder is there only if it is complete.
    """
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
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
