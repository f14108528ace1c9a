"""Marks of complete folders, and the checkpoints of a stage. A mark is written last, when all else is on the disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import geoalign
from geoalign.lab.store.files import sync_tree
from geoalign.lab.store.json_files import read_json, write_json
from geoalign.lab.store.run_folder import RunFolder

MARK = "COMPLETE.json"
CHECKPOINT = "checkpoint-"
_TRAINER_STATE = "trainer_state.json"


def mark_complete(folder: Path, *, step: int = 0, run: Mapping[str, Any] | None = None) -> None:
    """Brings every file of a folder to the disk, then writes its mark; `run` is how far the run was then (`Moment`)."""
    sync_tree(folder)
    write_json(folder / MARK, {"step": step, "geoalign": geoalign.__version__, "run": run or {}})


def checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"{CHECKPOINT}{step}"


def checkpoint_step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix(CHECKPOINT))


def is_checkpoint(path: Path) -> bool:
    return path.name.startswith(CHECKPOINT) and path.name.removeprefix(CHECKPOINT).isdigit()


def is_last(checkpoint: Path) -> bool:
    """True if a checkpoint was written after a stage's last update.

    transformers makes one update more when it resumes from such a checkpoint: there is nothing to resume.
    """
    state = read_json(checkpoint / _TRAINER_STATE)
    return bool(state["global_step"] >= state["max_steps"])


def complete_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints of a stage, oldest first."""
    paths = [path for path in folder.glob(f"{CHECKPOINT}*") if is_checkpoint(path) and (path / MARK).is_file()]
    return sorted(paths, key=checkpoint_step)


def latest_complete(folder: Path) -> Path | None:
    """The newest complete checkpoint of a stage; None where there is none. Incomplete ones are removed."""
    for path in [*folder.glob(f"{CHECKPOINT}*")]:
        if is_checkpoint(path) and not (path / MARK).is_file():
            remove_checkpoint(path)
    return next(reversed(complete_checkpoints(folder)), None)


def prune(folder: Path, keep: int) -> None:
    for path in complete_checkpoints(folder)[:-keep]:
        remove_checkpoint(path)


def remove_checkpoint(path: Path) -> None:
    """Removes a checkpoint; the mark goes first, so half of one never counts."""
    (path / MARK).unlink(missing_ok=True)
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path)


# How far a run is: noted in the mark of every checkpoint, and in `records.json` for what comes between them.

# In the order in which a run passes through them.
STAGES = ("sft", "reward_model", "gold_model", "rl", "done")


@dataclass(frozen=True)
class Moment:
    """A run after `step` updates of a stage, with so many bytes in its two logs, which only grow."""

    stage: str
    step: int
    metrics: int = 0
    evaluation: int = 0

    @property
    def rank(self) -> tuple[int, int]:
        return STAGES.index(self.stage), self.step


def next_stage(folder: RunFolder, learned: Sequence[str]) -> str:
    """The stage that follows once the warm start is there: the first of the stages `learned`, which make a reward model
    and a gold model in folders of their names, whose model is not there yet; after them RL."""
    return next((name for name in learned if not (folder.checkpoints / name).is_dir()), "rl")


def made_models(folder: RunFolder) -> dict[str, Path]:
    """The model that each stage makes; each is complete if it exists."""
    models = (folder.warm_started, folder.reward_model, folder.gold_model, folder.final)
    return dict(zip(STAGES, models, strict=False))


def stage_checkpoints(folder: RunFolder) -> dict[str, Path]:
    """Where each stage's checkpoints are, in the order of the stages."""
    checkpoints = (folder.sft_checkpoints, folder.reward_model_checkpoints, folder.gold_model_checkpoints)
    return dict(zip(STAGES, (*checkpoints, folder.rl_checkpoints), strict=False))


def records_of(folder: RunFolder, stage: str) -> Callable[[int], dict[str, Any]]:
    """What `CompleteCheckpoints` notes in the marks of a stage's checkpoints."""
    return lambda step: asdict(Moment(stage, step, _bytes(folder.metrics), _bytes(folder.evaluation)))


def note_records(folder: RunFolder, stage: str, step: int) -> None:
    """Writes `records.json`: what has come since the last checkpoint, such as an evaluation, counts from now on."""
    write_json(folder.records, records_of(folder, stage)(step))


def last_moment(folder: RunFolder) -> tuple[Moment, Path | None]:
    """The newest moment of a run, and the file that notes it; None for the start."""
    found = [(Moment(**read_json(folder.records)), folder.records)] if folder.records.is_file() else []
    for checkpoints in stage_checkpoints(folder).values():
        marks = [path / MARK for path in complete_checkpoints(checkpoints)[-1:]]
        found += [(Moment(**read_json(mark)["run"]), mark) for mark in marks]
    return max(found, key=lambda moment: moment[0].rank, default=(Moment("sft", 0), None))


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
