"""The last good moment of a run: the newest checkpoint that is as it was written, with logs that are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path

from geoalign.errors import RunFolderError
from geoalign.lab.store.records import STAGES, Check, Records, noted_records
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.store.seals import (
    MARK,
    Digest,
    checkpoint_folders,
    checkpoint_path,
    checkpoint_step,
    files_fault,
    read_mark,
)


@dataclass(frozen=True)
class ResumePoint:
    """A moment to which a run can go back.

    Attributes:
        name: its name for the user: a path within the run folder.
        rank: orders the points of a run in time.
        records: what the run's own files held then; None where its mark does not say.
        checkpoint: the checkpoint with the state of the stage; None at a stage's start.
        fault: what is wrong with the checkpoint itself, whatever the logs hold.
    """

    name: str
    rank: tuple[int, int]
    records: Records | None
    checkpoint: Path | None = None
    fault: str | None = None


def last_good(folder: RunFolder) -> tuple[ResumePoint, list[tuple[Path, str]]]:
    """The newest point of a run that is as it was written, and why the newer checkpoints are refused.

    Where a checkpoint is damaged, the one before it is taken, or else the start of its stage. Where it is whole, but
    the logs, rollouts or models that it builds on are not, the one before it is taken if they were whole then. A stage
    is never begun anew for the sake of a log, nor a finished one gone back into.

    Raises:
        RunFolderError: there is no such point; the message has the file, what was expected, what came.
    """
    check = Check(folder)
    refused: list[tuple[Path, str]] = []
    first_fault, checkpoints_whole, stage = None, False, len(STAGES)
    for point in resume_points(folder):
        if first_fault is not None and (point.rank[0] < stage or (checkpoints_whole and point.checkpoint is None)):
            break
        if point.fault is not None:
            assert point.checkpoint is not None
            refused.append((point.checkpoint, point.fault))
            continue
        assert point.records is not None
        fault = check.fault(point.records)
        if fault is None:
            return point, refused
        first_fault = first_fault or fault
        stage = min(stage, point.rank[0])
        if point.checkpoint is not None:
            checkpoints_whole = True
            refused.append((point.checkpoint, fault))
    raise RunFolderError(
        f"{first_fault}: the run cannot be resumed without it: put it back as the run wrote it, remove "
        f"{folder.records.name} to resume from the last checkpoint (what followed it is made again), or start a new "
        f"run with another --output"
    )


def resume_points(folder: RunFolder) -> Iterator[ResumePoint]:
    """Every point of a run, newest first; a checkpoint is read only once it is asked for."""
    # What comes first where two have one rank: the records, then the checkpoint, then the start.
    points: list[tuple[tuple[int, int], int, Callable[[], ResumePoint]]] = [((0, 0), 0, partial(_start, folder))]
    for stage, checkpoints in stage_checkpoints(folder).items():
        for path in checkpoint_folders(checkpoints):
            if (path / MARK).is_file():
                rank = (STAGES.index(stage), checkpoint_step(path))
                points.append((rank, 1, partial(_checkpoint, folder, path, rank)))
    if (noted := noted_records(folder)) is not None:
        points.append((noted.rank, 2, partial(_noted, folder, noted)))
    for _, _, point in sorted(points, key=itemgetter(0, 1), reverse=True):
        yield point()


def stage_checkpoints(folder: RunFolder) -> dict[str, Path]:
    """Where each stage's checkpoints are, in the order of the stages."""
    return {
        "sft": folder.sft_checkpoints,
        "reward_model": folder.reward_model_checkpoints,
        "gold_model": folder.gold_model_checkpoints,
        "rl": folder.rl_checkpoints,
    }


def _start(folder: RunFolder) -> ResumePoint:
    return ResumePoint("the start", (0, 0), Records("sft", 0, Digest.of_file(folder.versions)))


def _checkpoint(folder: RunFolder, path: Path, rank: tuple[int, int]) -> ResumePoint:
    """The point of a checkpoint, with its fault where there is one."""
    point = ResumePoint(_name(folder, path), rank, None, path)
    try:
        mark = read_mark(path)
    except RunFolderError as error:
        return replace(point, fault=str(error))
    if (fault := files_fault(path, mark)) is not None:
        return replace(point, fault=fault)
    if mark.step != rank[1]:
        return replace(point, fault=f"{path / MARK}: step: expected {rank[1]}, got {mark.step}")
    try:
        return replace(point, records=Records.of_plain(mark.run))
    except ValueError as error:
        return replace(point, fault=f"{path / MARK}: run: {error}")


def _noted(folder: RunFolder, noted: Records) -> ResumePoint:
    """The point of `records.json`: something done after a checkpoint, or at a stage's start, without a state."""
    if not noted.step or noted.stage == "done":
        return ResumePoint(_name(folder, folder.records), noted.rank, noted)
    path = checkpoint_path(stage_checkpoints(folder)[noted.stage], noted.step)
    return replace(_checkpoint(folder, path, noted.rank), records=noted)


def _name(folder: RunFolder, path: Path) -> str:
    return path.relative_to(folder.root).as_posix()
