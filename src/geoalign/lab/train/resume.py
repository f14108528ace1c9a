"""Going on with a run: the settings must be the same, and what followed the last good checkpoint is cut away."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.lab.store.files import HALF_WRITTEN, LOCK, write_atomically
from geoalign.lab.store.json_files import keep_lines
from geoalign.lab.store.records import STAGES, Check, Records, made_models, noted_records
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.store.seals import MARK, checkpoint_folders, checkpoint_step, latest_complete, remove_checkpoint
from geoalign.lab.terminal import Console
from geoalign.lab.train.resume_point import ResumePoint, last_good, stage_checkpoints


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
    for path, other in ((folder.config, folder.versions), (folder.versions, folder.config)):
        if other.is_file() and (folder.metrics.is_file() or folder.checkpoints.is_dir()):
            raise RunFolderError(
                f"{path}: expected the file that the run in this folder has written, got none: put it back, or start "
                f"a new run with another --output"
            )
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


def finished_whole(folder: RunFolder, console: Console) -> bool:
    """True if the run is finished and everything that it has recorded is as it was written.

    A summary that is not is reported, and made again like that of an unfinished run. Of a run by a version that kept no
    digests nothing is checked.

    Raises:
        RunFolderError: a log, rollouts or a model have changed; the message has the file.
    """
    if not folder.finished():
        return False
    if not folder.check_start():
        return True
    noted = noted_records(folder)
    if noted is None or noted.summary is None:
        return False
    fault = Check(folder).fault(noted, whole=True)
    if fault is not None:
        raise RunFolderError(f"{fault}: put it back as the run wrote it; `geoalign report` alone does not need it")
    if (fault := noted.summary.fault(folder.summary)) is not None:
        console.print(f"{fault}: it is made again.", markup=False, highlight=False, soft_wrap=True)
        return False
    return True


def go_back(folder: RunFolder, console: Console) -> None:
    """Takes a run back to its last good checkpoint: what followed is removed, so that nothing is written twice.

    Prints which checkpoints are refused, and why. Nothing is removed before all that stays has been checked. Files that
    the run has not written itself stay.

    Raises:
        RunFolderError: there is nothing good to go on from; the message has the file, what was expected, what came.
    """
    if not folder.check_start():
        _say(
            console,
            f"The run in {folder.root} was started by geoalign {folder.read_versions().get('geoalign')}, which kept no "
            f"digests of what it wrote: its logs and checkpoints are taken as they are.",
        )
        cut_back(folder)
        return
    point, refused = last_good(folder)
    for checkpoint, why in refused:
        _say(console, f"{checkpoint.relative_to(folder.root)} is refused. {why}.")
    if point.checkpoint is not None or refused:
        _say(console, f"Resuming from {point.name}.")
    _restore(folder, point)


def _restore(folder: RunFolder, point: ResumePoint) -> None:
    assert point.records is not None
    records = point.records
    _drop_unrecorded(folder, records)
    for stage, checkpoints in stage_checkpoints(folder).items():
        for path in checkpoint_folders(checkpoints):
            later = (STAGES.index(stage), checkpoint_step(path)) > point.rank
            if later or not (path / MARK).is_file():
                remove_checkpoint(path)
    noted = noted_records(folder)
    if noted is not None and noted != records and noted.rank >= records.rank:
        folder.records.unlink()
    folder.drop_half_written()
    for path, digest in ((folder.metrics, records.metrics), (folder.evaluation, records.evaluation)):
        if path.is_file() and path.stat().st_size > digest.size:
            with path.open("rb") as file:
                write_atomically(path, file.read(digest.size))
    for path, _ in folder.step_files():
        if path.name not in (records.rollouts if path.parent == folder.rollouts else records.details):
            path.unlink()


def _drop_unrecorded(folder: RunFolder, records: Records) -> None:
    """Removes models that the run was killed over, before it had recorded them: they are made again.

    One that is whole stays, unless lines of metrics that came with it are about to be cut away.

    Raises:
        RunFolderError: there is a whole model, but no record of the updates that made it.
    """
    check = Check(folder)
    grown = folder.metrics.is_file() and folder.metrics.stat().st_size > records.metrics.size
    shared = "shared" in folder.read_versions()
    for model in made_models(folder):
        if model.name in records.made or not model.is_dir():
            continue
        with_lines = model in (folder.reward_model, folder.gold_model) and not shared
        if with_lines or check.made_fault(model) is not None:
            shutil.rmtree(model)
        elif grown:
            raise RunFolderError(
                f"{folder.records}: expected what the run held when {model} was complete, got none: put the file back, "
                f"or move that folder away to have it made again"
            )


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def cut_back(folder: RunFolder) -> None:
    """Removes everything that a resumed run without digests will write again, by the steps that its lines name.

    Lines of a finished stage stay. Those of the stage that was under way stay up to its last complete checkpoint;
    incomplete checkpoints and half-written files go.
    """
    folder.drop_half_written()
    warm = folder.warm_started.is_dir()
    sft_step = _last_step(folder.sft_checkpoints)
    model_step = _last_step(folder.reward_model_checkpoints) if warm else 0
    learned = folder.reward_model.is_dir()
    rl_step = _last_step(folder.rl_checkpoints) if warm else 0
    done = warm and folder.final.is_dir()

    def keep_metrics(line: dict[str, Any]) -> bool:
        if line.get("stage") == "sft":
            return warm or line["step"] <= sft_step
        if line.get("stage") == "reward_model":
            # The line of the held-out pairs is written after the last checkpoint, when all is trained.
            heldout = any(key.startswith("heldout/") for key in line)
            return learned or (warm and line["step"] <= model_step and not heldout)
        return done or (warm and line["step"] <= rl_step)

    def keep_evaluation(line: dict[str, Any]) -> bool:
        if line.get("stage") == "before_rl":
            return warm
        return done or (warm and line.get("stage") == "rl" and line["step"] <= rl_step)

    keep_lines(folder.metrics, keep_metrics)
    keep_lines(folder.evaluation, keep_evaluation)
    # A generation made after N updates is of step N: it follows the checkpoint of step N, which therefore lacks it.
    folder.drop_steps(lambda step: done or step < rl_step)


def _last_step(checkpoints: Path) -> int:
    latest = latest_complete(checkpoints)
    return checkpoint_step(latest) if latest else 0
