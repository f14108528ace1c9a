"""Trainer checkpoints that count only once they are complete.

transformers writes a checkpoint file by file into its final place, and would resume from one that a kill cut short.
Here a mark is written into the folder last, after every file has reached the disk; a folder without it is removed. The
mark lists every file with size and digest, so that a resumed run can tell whether all is as it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from geoalign.lab.models.processes import Processes
from geoalign.lab.store.seals import checkpoint_path, mark_complete, prune


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
        Processes.launched().barrier()
        if state.is_world_process_zero:
            checkpoint = checkpoint_path(self.folder, state.global_step)
            mark_complete(checkpoint, step=state.global_step, run=self.run(state.global_step))
            if self.keep is not None:
                prune(self.folder, self.keep)
        return control
