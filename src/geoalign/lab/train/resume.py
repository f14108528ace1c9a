"""Where a training starts: in a vacant folder, from another run's models, or where it was when its last mark was made.

A kill at any moment leaves the marks whole (a mark is written last), logs that are at most longer than their mark says,
and files that no mark knows: going on cuts the logs and removes the files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from geoalign.errors import ConfigError, RunFolderError
from geoalign.lab.store.files import HALF_WRITTEN, LOCK, beside, replace_folder
from geoalign.lab.store.records import STAGES, last_moment, made_models, next_stage, note_records, stage_checkpoints
from geoalign.lab.store.run_folder import RunFolder, first_difference
from geoalign.lab.store.seals import MARK, latest_complete
from geoalign.lab.terminal import Console, say

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
    """Takes a run back to its newest moment (`last_moment`): what followed is removed, and so never written twice.

    Files that the run has not written itself stay.
    """
    moment, noted = last_moment(folder)
    if noted is not None and noted.name == MARK:
        say(console, f"Resuming from {noted.parent.relative_to(folder.root).as_posix()}.")
    for checkpoints in stage_checkpoints(folder).values():
        latest_complete(checkpoints)
    for stage, model in made_models(folder).items():
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
