"""The warm start: supervised fine-tuning on a task's demonstrations, by TRL's `SFTTrainer`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasets import Dataset
from trl import SFTTrainer

from geoalign.lab.models.models import initial_model, load_checkpoint, merged, with_adapters
from geoalign.lab.store.records import next_stage
from geoalign.lab.store.seals import is_last, latest_complete
from geoalign.lab.tasks.base import Demonstration
from geoalign.lab.train.prompts import short_enough
from geoalign.lab.train.run import Run
from geoalign.lab.train.trainers import InRunFolder, ProgressBar, run_trainer, save_model, stage_callbacks


class WarmStartTrainer(InRunFolder, SFTTrainer):
    """TRL's trainer on demonstrations; the loss counts completion tokens only."""


def warm_start_stage(run: Run) -> None:
    """Makes the model that RL starts from, `checkpoints/warm_start`; nothing if it is there."""
    folder = run.folder
    if folder.warm_started.is_dir():
        return
    run.processes.barrier()  # all have looked before one writes
    model, tokenizer = initial_model(run.model, alphabet=run.task.alphabet(), words=run.task.words(), seed=run.seed)
    rows = [] if run.sft is None else _rows(run, tokenizer)
    resume_from = latest_complete(folder.sft_checkpoints)
    if resume_from is not None and is_last(resume_from):
        model, tokenizer = load_checkpoint(resume_from, run.model, model, tokenizer)
    elif run.sft is not None and rows:
        model = with_adapters(model, run.model.lora, seed=run.seed)
        bar = ProgressBar(run.console, "warm start", {"loss": "loss", "token accuracy": "mean_token_accuracy"})
        with bar:
            trainer = WarmStartTrainer(
                model=model,
                args=run.sft,
                train_dataset=Dataset.from_list(rows),
                processing_class=tokenizer,
                callbacks=stage_callbacks(run, "sft", folder.sft_checkpoints, bar),
            )
            run_trainer(trainer, resume_from)
        model = merged(model)
    elif run.sft is not None:
        run.console.print(f"No warm start: task {run.task.name} has no demonstrations.")
    save_model(run, model, tokenizer, folder.warm_started, next_stage(folder, run.learned))


def _rows(run: Run, tokenizer: Any) -> list[dict[str, Any]]:
    options = run.model.chat_template_kwargs
    demonstrations, note = short_enough(
        run.task.demonstrations(), run.max_prompt_length, tokenizer, options, what="demonstrations"
    )
    if note is not None:
        run.console.print(note, markup=False)
    return [demonstration_row(item, options) for item in demonstrations]


def demonstration_row(item: Demonstration, options: Mapping[str, Any]) -> dict[str, Any]:
    """One row of TRL's data for the warm start; `options` is what the chat template is told."""
    row: dict[str, Any] = {
        "prompt": list(item.prompt),
        "completion": [{"role": "assistant", "content": item.completion}],
    }
    return {**row, "chat_template_kwargs": dict(options)} if options else row
