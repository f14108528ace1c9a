"""What the trainers of all stages have in common: lines of metrics, marked checkpoints, a progress bar, no model card.

transformers writes a checkpoint file by file into its final folder, and would resume from one that a kill cut short.
Here a mark is written into the folder last, after every file has reached the disk; a folder without it is removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import PrinterCallback, TrainerCallback

from geoalign.console.numbers import short
from geoalign.console.terminal import stage_progress
from geoalign.files.json_files import append_line
from geoalign.lab.models.language_model import save_complete
from geoalign.lab.models.process_setup import Processes
from geoalign.lab.runs.folder import checkpoint_path, mark_complete, note_records, prune, records_of, stage_checkpoints
from geoalign.lab.train.plan import Plan

_Base: Any = object
if TYPE_CHECKING:
    from transformers import Trainer as _Base

# Keys of the line that transformers logs once, after training; they say nothing about a step.
_CLOSING = "train_runtime"


class Stage(TrainerCallback):
    """What a stage does beside training; a context manager that ends its progress bar.

    Each logged step is one line of metrics: stage, step, and TRL's keys. A checkpoint is marked complete when the
    trainer has written all of it, then all but the newest `output.keep_checkpoints` are removed. The bar, called
    `title`, has the last values of a few metrics beside it (`shown`: label -> metric key).
    """

    def __init__(self, plan: Plan, stage: str, title: str, shown: Mapping[str, str]) -> None:
        self.plan = plan
        self.stage = stage
        self.title = title
        self.shown = shown
        self.checkpoints = stage_checkpoints(plan.folder)[stage]
        self.progress = stage_progress(plan.console)
        self.newest: dict[str, float] = {}
        self.task: Any = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.task = self.progress.add_task(self.title, total=state.max_steps, completed=state.global_step, values="")
        self.progress.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.progress.update(self.task, completed=state.global_step)

    def on_log(  # type: ignore[override]  # transformers hands the logs over by name
        self, args: Any, state: Any, control: Any, *, logs: Mapping[str, Any], **kwargs: Any
    ) -> None:
        if _CLOSING not in logs and state.is_world_process_zero:
            # On the disk before a checkpoint follows.
            append_line(self.plan.folder.metrics, {"stage": self.stage, "step": state.global_step, **logs})
        # The trainer's own history, which transformers writes whole at every checkpoint, is not kept. The last entry
        # stays: the trainers before RL take their token count from it (`InRunFolder`).
        del state.log_history[:-1]
        for label, key in self.shown.items():
            value = logs.get(key)
            if isinstance(value, int | float):
                self.newest[label] = value
        values = [f"{label} {short(value)}" for label, value in self.newest.items()]
        self.progress.update(self.task, values="  ".join(values))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called by the trainer on every process after the last file that it writes itself."""
        Processes.launched().barrier()
        if state.is_world_process_zero:
            step = state.global_step
            run = records_of(self.plan.folder, self.stage)(step)
            mark_complete(checkpoint_path(self.checkpoints, step), step=step, run=run)
            prune(self.checkpoints, self.plan.config.output.keep_checkpoints)

    def __enter__(self) -> Stage:
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


def run_trainer(trainer: Any, checkpoint: Path | None) -> None:
    """Trains to the end, from a complete checkpoint of the same run where there is one; prints nothing."""
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))


def save_model(plan: Plan, model: Any, tokenizer: Any, path: Path, then: str) -> None:
    """Saves the model that a stage has made, and notes that the stage `then` begins; the other processes wait."""
    if plan.processes.is_main:
        save_complete(model, tokenizer, path)
        note_records(plan.folder, then, 0)
    plan.processes.barrier()
