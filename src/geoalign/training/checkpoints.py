"""Trainer checkpoints that count only once they are complete.

transformers writes a checkpoint file by file into its final place, and would go on from one that a kill cut short.
Here a mark is written into the folder last, after every file has reached the disk; a folder without it is removed. The
mark lists every file with size and digest, so that a resumed run can tell whether all is as it was written.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from geoalign.training.files import read_json
from geoalign.training.marks import MARK as MARK
from geoalign.training.marks import mark_complete
from geoalign.training.processes import Processes

_PREFIX = "checkpoint-"


class CompleteCheckpoints(TrainerCallback):
    """Marks each checkpoint complete when the trainer has written all of it, then removes old ones.

    Args:
        folder: the trainer's output folder.
        keep: complete checkpoints kept; None: all.
        run: called with the number of updates, what the run's own files hold at that moment, for the mark.
    """

    def __init__(
        self, folder: Path, keep: int | None, run: Callable[[int], Mapping[str, Any]] = lambda step: {}
    ) -> None:
        self.folder = folder
        self.keep = keep
        self.run = run

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> TrainerControl:
        """Called by the trainer on every process after the last file that it writes itself."""
        Processes.launched().wait()
        if state.is_world_process_zero:
            checkpoint = self.folder / f"{_PREFIX}{state.global_step}"
            mark_complete(checkpoint, step=state.global_step, run=self.run(state.global_step))
            if self.keep is not None:
                prune(self.folder, self.keep)
        return control


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
