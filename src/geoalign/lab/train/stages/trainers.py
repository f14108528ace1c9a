"""What the trainers of all stages have in common: lines of metrics, marked checkpoints, a progress bar, no card.

transformers writes a checkpoint file by file into its final folder, and would resume from one that a kill cut short.
Here a mark is written into the folder last, after every file has reached the disk; a folder without it is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import PrinterCallback, TrainerCallback

from geoalign.lab.models.models import save_complete
from geoalign.lab.models.process_setup import Processes
from geoalign.lab.store.json_files import append_line
from geoalign.lab.store.run_folder import checkpoint_path, mark_complete, note_records, prune, records_of
from geoalign.lab.terminal import Console, stage_progress
from geoalign.lab.train.plan import Plan

_Base: Any = object
if TYPE_CHECKING:
    from transformers import Trainer as _Base

# Keys of the line that transformers logs once, after training; they say nothing about a step.
_CLOSING = "train_runtime"


class MetricLines(TrainerCallback):
    """Passes each logged step on as one dict: stage, step, and TRL's keys.

    What `write` is given must be on the disk when it returns, because a checkpoint may follow. The trainer's own
    history is not kept: transformers writes it whole at every checkpoint and reads none of it back.
    """

    def __init__(self, stage: str, write: Callable[[Mapping[str, Any]], None]) -> None:
        self.stage = stage
        self.write = write

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Called by the trainer with the metrics of a step."""
        if logs is not None and _CLOSING not in logs and state.is_world_process_zero:
            self.write({"stage": self.stage, "step": state.global_step, **logs})
        # The last entry stays: the trainers before RL take their token count from it (`InRunFolder`).
        del state.log_history[:-1]


class CompleteCheckpoints(TrainerCallback):
    """Marks each checkpoint complete when the trainer has written all of it, then removes all but the newest `keep`.

    `run`, called with the number of updates, says how far the run is, for the mark.
    """

    def __init__(
        self, folder: Path, keep: int | None, run: Callable[[int], Mapping[str, Any]] = lambda step: {}
    ) -> None:
        self.folder, self.keep, self.run = folder, keep, run

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called by the trainer on every process after the last file that it writes itself."""
        Processes.launched().barrier()
        if state.is_world_process_zero:
            checkpoint = checkpoint_path(self.folder, state.global_step)
            mark_complete(checkpoint, step=state.global_step, run=self.run(state.global_step))
            if self.keep is not None:
                prune(self.folder, self.keep)


class ProgressBar(TrainerCallback):
    """One progress bar per stage, with the last value of a few metrics beside it (`shown`: label -> metric key)."""

    def __init__(self, console: Console, title: str, shown: Mapping[str, str]) -> None:
        self.progress, self.title, self.shown = stage_progress(console), title, shown
        self.newest: dict[str, float] = {}
        self.task: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.task = self.progress.add_task(self.title, total=state.max_steps, completed=state.global_step, values="")
        self.progress.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.progress.update(self.task, completed=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        for label, key in self.shown.items():
            value = (logs or {}).get(key)
            if isinstance(value, (int, float)):
                self.newest[label] = value
        self.progress.update(self.task, values="  ".join(f"{label} {self.newest[label]:.3g}" for label in self.newest))

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()


class InRunFolder(_Base):
    """Put before a trainer of TRL: no model card at every checkpoint; its token count survives a resumption."""

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        # TRL counts `num_tokens` from zero again; the last logged value is that of the checkpoint.
        counts = [entry["num_tokens"] for entry in self.state.log_history if "num_tokens" in entry]
        if checkpoint is not None and counts:
            self._total_train_tokens = int(counts[-1])

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Writes nothing: a run folder describes itself."""


def stage_callbacks(plan: Plan, stage: str, checkpoints: Path, bar: ProgressBar) -> list[TrainerCallback]:
    """What every stage does beside training, in the order in which it is done."""
    return [
        MetricLines(stage, partial(append_line, plan.folder.metrics)),
        CompleteCheckpoints(checkpoints, plan.config.output.keep_checkpoints, records_of(plan.folder, stage)),
        bar,
    ]


def run_trainer(trainer: Any, resume_from: Path | None) -> None:
    """Trains to the end, from a complete checkpoint of the same run where there is one; prints nothing."""
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)


def save_model(plan: Plan, model: Any, tokenizer: Any, path: Path, then: str) -> None:
    """Saves a finished model; `then` is the stage that it begins."""
    if plan.processes.is_main:
        save_complete(model, tokenizer, path)
        note_records(plan.folder, then, 0)
    plan.processes.barrier()
