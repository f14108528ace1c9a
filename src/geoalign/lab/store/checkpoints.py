"""The checkpoints of a stage: which are complete, and which is the last."""

from __future__ import annotations

import shutil
from pathlib import Path

from geoalign.lab.store.files import read_json
from geoalign.lab.store.marks import MARK

_PREFIX = "checkpoint-"


def checkpoint_step(checkpoint: Path) -> int:
    """The number of updates after which a checkpoint was written."""
    return int(checkpoint.name.removeprefix(_PREFIX))


def is_last(checkpoint: Path) -> bool:
    """True if a checkpoint was written after a stage's last update.

    transformers makes one update more when it goes on from such a checkpoint: there is nothing to go on with.

    Raises:
        RunFolderError: its `trainer_state.json` is unreadable.
    """
    state = read_json(checkpoint / "trainer_state.json")
    return bool(state["global_step"] >= state["max_steps"])


def complete_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints of a stage, oldest first."""
    return [path for path in checkpoint_folders(folder) if (path / MARK).is_file()]


def latest_complete(folder: Path) -> Path | None:
    """The newest complete checkpoint of a stage; None where there is none. Incomplete ones are removed."""
    for path in checkpoint_folders(folder):
        if not (path / MARK).is_file():
            remove_checkpoint(path)
    complete = complete_checkpoints(folder)
    return complete[-1] if complete else None


def prune(folder: Path, keep: int) -> None:
    """Removes all but the newest `keep` complete checkpoints; the mark goes first, so half of one never counts."""
    for path in complete_checkpoints(folder)[:-keep]:
        remove_checkpoint(path)


def remove_checkpoint(path: Path) -> None:
    """Removes a checkpoint; the mark goes first, so half of one never counts."""
    if (path / MARK).is_file():
        (path / MARK).unlink()
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path)


def checkpoint_folders(folder: Path) -> list[Path]:
    """The folders of a stage's checkpoints, complete or not, oldest first."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.glob(f"{_PREFIX}*") if path.name.removeprefix(_PREFIX).isdigit() and path.is_dir()]
    return sorted(found, key=checkpoint_step)
