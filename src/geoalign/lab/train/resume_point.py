"""The last good moment of a run: the newest checkpoint that is as it was written, with logs that are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Refused:
    """A checkpoint that is refused, and why."""

    checkpoint: Path
    why: str


def last_good(folder: RunFolder) -> tuple[ResumePoint, list[Refused]]:
    """The newest point of a run that is as it was written, and the newer checkpoints that are not.

    Where a checkpoint is damaged, the one before it is taken, or else the start of its stage. Where it is whole, but
    the logs, rollouts or models that it builds on are not, the one before it is taken if they were whole then. A stage
    is never begun anew for the sake of a log, nor a finished one gone back into.

    Raises:
        RunFolderError: there is no such point; the message has the file, what was expected, what came.
    """
    check = Check(folder)
    refused: list[Refused] = []
    first_fault, checkpoints_whole, stage = None, False, len(STAGES)
    for point in resume_points(folder):
        if first_fault is not None and (point.rank[0] < stage or (checkpoints_whole and point.checkpoint is None)):
            break
        if point.fault is not None:
            assert point.checkpoint is not None
            refused.append(Refused(point.checkpoint, point.fault))
            continue
        assert point.records is not None
        fault = check.fault(point.records)
        if fault is None:
            return point, refused
        first_fault = first_fault or fault
        stage = min(stage, point.rank[0])
        if point.checkpoint is not None:
            checkpoints_whole = True
            refused.append(Refused(point.checkpoint, fault))
    raise RunFolderError(
        f"{first_fault}: the run cannot be resumed without it: put it back as the run wrote it, remove "
        f"{folder.records.name} to resume from the last checkpoint (what followed it is made again), or start a new "
        f"run with another --output"
    )


def resume_points(folder: RunFolder) -> Iterator[ResumePoint]:
    """Every point of a run, newest first; a checkpoint is read only once it is asked for."""
    noted = noted_records(folder)
    places: list[tuple[tuple[int, int], int, Path | None]] = [((0, 0), 0, None)]
    for stage, where in _checkpoint_folders(folder):
        for path in checkpoint_folders(where):
            if (path / MARK).is_file():
                places.append(((STAGES.index(stage), checkpoint_step(path)), 1, path))
    if noted is not None:
        places.append((noted.rank, 2, folder.records))
    for rank, _, found in sorted(places, key=lambda place: place[:2], reverse=True):
        if found is None:
            yield ResumePoint("the start", rank, Records("sft", 0, Digest.of_file(folder.versions)))
        elif noted is not None and found == folder.records:
            yield _noted(folder, noted)
        else:
            yield _checkpoint(folder, found, rank)


def _checkpoint_folders(folder: RunFolder) -> tuple[tuple[str, Path], ...]:
    stages = ("sft", "reward_model", "rl")
    return tuple(
        zip(stages, (folder.sft_checkpoints, folder.reward_model_checkpoints, folder.rl_checkpoints), strict=True)
    )


def _checkpoint(folder: RunFolder, path: Path, rank: tuple[int, int]) -> ResumePoint:
    point = ResumePoint(_name(folder, path), rank, None, path)
    try:
        mark = read_mark(path)
    except RunFolderError as error:
        return ResumePoint(point.name, rank, None, path, str(error))
    fault = files_fault(path, mark)
    if fault is None and mark.step != rank[1]:
        fault = f"{path / MARK}: step: expected {rank[1]}, got {mark.step}"
    return ResumePoint(point.name, rank, None, path, fault) if fault else _with_records(point, path)


def _with_records(point: ResumePoint, path: Path) -> ResumePoint:
    try:
        records = Records.of_plain(read_mark(path).run)
    except ValueError as error:
        return ResumePoint(point.name, point.rank, None, point.checkpoint, f"{path / MARK}: run: {error}")
    return ResumePoint(point.name, point.rank, records, point.checkpoint)


def _noted(folder: RunFolder, noted: Records) -> ResumePoint:
    """The point of `records.json`: something done after a checkpoint, or at a stage's start, without a state."""
    if not noted.step or noted.stage == "done":
        return ResumePoint(_name(folder, folder.records), noted.rank, noted)
    place = checkpoint_path(dict(_checkpoint_folders(folder))[noted.stage], noted.step)
    own = _checkpoint(folder, place, noted.rank)
    return ResumePoint(own.name, noted.rank, noted, place, own.fault)


def _name(folder: RunFolder, path: Path) -> str:
    return path.relative_to(folder.root).as_posix()
