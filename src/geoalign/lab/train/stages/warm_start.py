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
from geoalign.lab.train.plan import Plan
from geoalign.lab.train.prompts import short_enough
from geoalign.lab.train.stages.trainers import InRunFolder, ProgressBar, run_trainer, save_model, stage_callbacks


class WarmStartTrainer(InRunFolder, SFTTrainer):
    """TRL's trainer on demonstrations; the loss counts completion tokens only."""


def warm_start_stage(plan: Plan) -> None:
    """Makes the model that RL starts from, `checkpoints/warm_start`; nothing if it is there."""
    folder, settings, seed = plan.folder, plan.config.model, plan.config.seed
    if folder.warm_started.is_dir():
        return
    plan.processes.barrier()  # all have looked before one writes
    model, tokenizer = initial_model(settings, alphabet=plan.task.alphabet(), words=plan.task.words(), seed=seed)
    rows = [] if plan.sft is None else _rows(plan, tokenizer)
    resume_from = latest_complete(folder.sft_checkpoints)
    if resume_from is not None and is_last(resume_from):
        model, tokenizer = load_checkpoint(resume_from, settings, model, tokenizer)
    elif plan.sft is not None and rows:
        model = with_adapters(model, settings.lora, seed=seed)
        bar = ProgressBar(plan.console, "warm start", {"loss": "loss", "token accuracy": "mean_token_accuracy"})
        with bar:
            trainer = WarmStartTrainer(
                model=model,
                args=plan.sft,
                train_dataset=Dataset.from_list(rows),
                processing_class=tokenizer,
                callbacks=stage_callbacks(plan, "sft", folder.sft_checkpoints, bar),
            )
            run_trainer(trainer, resume_from)
        model = merged(model)
    elif plan.sft is not None:
        plan.console.print(f"No warm start: task {plan.task.name} has no demonstrations.")
    save_model(plan, model, tokenizer, folder.warm_started, next_stage(folder, plan.learned))


def _rows(plan: Plan, tokenizer: Any) -> list[dict[str, Any]]:
    options = plan.config.model.chat_template_kwargs
    demonstrations, note = short_enough(
        plan.task.demonstrations(), plan.config.max_prompt_length, tokenizer, options, what="demonstrations"
    )
    if note is not None:
        plan.console.print(note, markup=False)
    return [demonstration_row(item, options) for item in demonstrations]


def demonstration_row(item: Demonstration, options: Mapping[str, Any]) -> dict[str, Any]:
    """One row of TRL's data for the warm start; `options` is what the chat template is told."""
    row: dict[str, Any] = {
        "prompt": list(item.prompt),
        "completion": [{"role": "assistant", "content": item.completion}],
    }
    return {**row, "chat_template_kwargs": dict(options)} if options else row
