"""What a stage does beside training: lines of metrics, a progress bar. TRL's own printing is off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from geoalign.lab.progress import stage_progress
from geoalign.lab.terminal import Console

# Keys of the line that transformers logs once, after training; they say nothing about a step.
_CLOSING = "train_runtime"


class MetricLines(TrainerCallback):
    """Passes each logged step on as one dict: stage, step, and TRL's keys; the trainer's own history is not kept.

    transformers writes the whole history anew into `trainer_state.json` at every checkpoint and reads none of it back.

    Args:
        stage: "sft" or "rl".
        write: takes one dict; it must be on the disk when the call returns, because a checkpoint may follow.
    """

    def __init__(self, stage: str, write: Callable[[Mapping[str, Any]], None]) -> None:
        self.stage = stage
        self.write = write

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Called by the trainer with the metrics of a step."""
        if logs is not None and _CLOSING not in logs and state.is_world_process_zero:
            self.write({"stage": self.stage, "step": state.global_step, **logs})
        # The last entry stays: the trainers before RL take their token count from it (`InRunFolder`).
        del state.log_history[:-1]


class ProgressBar(TrainerCallback):
    """One progress bar per stage, with the last value of a few metrics beside it.

    Args:
        title: name of the stage.
        shown: label -> metric key, in the order shown.
    """

    def __init__(self, console: Console, title: str, shown: Mapping[str, str]) -> None:
        self.progress = stage_progress(console)
        self.title = title
        self.shown = shown
        self.newest: dict[str, float] = {}
        self.task: Any = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Shows the bar; a resumed stage starts where its checkpoint stands."""
        self.task = self.progress.add_task(self.title, total=state.max_steps, completed=state.global_step, values="")
        self.progress.start()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Moves the bar."""
        self.progress.update(self.task, completed=state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Shows the newest values."""
        for label, key in self.shown.items():
            value = (logs or {}).get(key)
            if isinstance(value, (int, float)):
                self.newest[label] = value
        self.progress.update(self.task, values="  ".join(f"{label} {self.newest[label]:.3g}" for label in self.newest))

    def __enter__(self) -> ProgressBar:
        """The bar is drawn from `on_train_begin` on."""
        return self

    def __exit__(self, *error: object) -> None:
        """Leaves the bar on the terminal, also where training broke off."""
        self.progress.stop()
