"""Going on with a run: what followed its newest checkpoint, or the end of its last stage, is cut away."""

from __future__ import annotations

import os
import shutil

from geoalign.errors import RunFolderError
from geoalign.lab.store.files import HALF_WRITTEN, LOCK
from geoalign.lab.store.records import STAGES, last_moment, made_models, stage_checkpoints
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.store.seals import MARK, latest_complete
from geoalign.lab.terminal import Console, say


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
    if not folder.root.is_dir():
        return
    # What a run leaves that was killed before it had written its first two files. No config.yaml: alone it is more
    # likely a user's own file than ours.
    early = {LOCK, folder.versions.name}
    others = [
        item.name for item in folder.root.iterdir() if item.name not in early and not item.name.endswith(HALF_WRITTEN)
    ]
    if others:
        raise RunFolderError(
            f"{folder.root}: expected a new or empty folder or that of a run, got one with {sorted(others)[0]} "
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
