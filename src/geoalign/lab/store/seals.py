"""Marks of complete folders, and the checkpoints of a stage. A mark is written last, when all else is on the disk."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import geoalign
from geoalign.lab.store.files import sync_tree
from geoalign.lab.store.json_files import read_json, write_json

MARK = "COMPLETE.json"
CHECKPOINT = "checkpoint-"
_TRAINER_STATE = "trainer_state.json"


def mark_complete(folder: Path, *, step: int = 0, run: Mapping[str, Any] | None = None) -> None:
    """Brings every file of a folder to the disk, then writes its mark.

    `run` is how far the run was at that moment (`geoalign.lab.store.records`).
    """
    sync_tree(folder)
    write_json(folder / MARK, {"step": step, "geoalign": geoalign.__version__, "run": run or {}})


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where a stage's checkpoint after so many updates lies."""
    return folder / f"{CHECKPOINT}{step}"


def checkpoint_step(checkpoint: Path) -> int:
    """The number of updates after which a checkpoint was written."""
    return int(checkpoint.name.removeprefix(CHECKPOINT))


def is_checkpoint(path: Path) -> bool:
    """Whether a path has the name of a checkpoint."""
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
    """Removes all but the newest `keep` complete checkpoints."""
    for path in complete_checkpoints(folder)[:-keep]:
        remove_checkpoint(path)


def remove_checkpoint(path: Path) -> None:
    """Removes a checkpoint; the mark goes first, so half of one never counts."""
    (path / MARK).unlink(missing_ok=True)
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path)
