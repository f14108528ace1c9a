"""The warm start: the model that RL starts from, trained on the task's demonstrations by TRL's `SFTTrainer`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datasets import Dataset
from trl import SFTTrainer

from geoalign.lab.models.language_model import initial_model, load_checkpoint, merged, with_adapters
from geoalign.lab.runs.folder import is_last_checkpoint, latest_complete, next_stage, stage_checkpoints
from geoalign.lab.train.plan import Plan, short_enough
from geoalign.lab.train.stage import InRunFolder, Stage, run_trainer, save_model


class WarmStartTrainer(InRunFolder, SFTTrainer):
    """TRL's trainer on demonstrations; the loss counts completion tokens only."""


def warm_start_stage(plan: Plan) -> None:
    """Makes the model that RL starts from, `checkpoints/warm_start`; nothing if it is there.

    With `sft: null`, or a task without demonstrations, it is the initial model.
    """
    folder = plan.folder
    settings = plan.config.model
    if folder.warm_started.is_dir():
        return
    plan.processes.barrier()  # all have looked before one writes
    model, tokenizer = initial_model(
        settings, alphabet=plan.task.alphabet, words=plan.task.words, seed=plan.config.seed
    )
    checkpoint = latest_complete(stage_checkpoints(folder)["sft"])
    if checkpoint is not None and is_last_checkpoint(checkpoint):
        model, tokenizer = load_checkpoint(checkpoint, settings, model, tokenizer)
    elif plan.sft is not None:
        rows = _demonstrations(plan, tokenizer)
        if rows:
            model = _trained(plan, model, tokenizer, rows, checkpoint)
        else:
            plan.console.print(f"No warm start: task {plan.task.name} has no demonstrations.")
    save_model(plan, model, tokenizer, folder.warm_started, next_stage(folder, plan.learned))


def _trained(plan: Plan, model: Any, tokenizer: Any, rows: list[dict[str, Any]], checkpoint: Path | None) -> Any:
    """The model trained on the rows, from a complete checkpoint where there is one, adapters merged."""
    model = with_adapters(model, plan.config.model.lora, seed=plan.config.seed)
    shown = {"loss": "loss", "token accuracy": "mean_token_accuracy"}
    with Stage(plan, "sft", "warm start", shown) as stage:
        trainer = WarmStartTrainer(
            model=model,
            args=plan.sft,
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            callbacks=[stage],
        )
        run_trainer(trainer, checkpoint)
    return merged(model)


def _demonstrations(plan: Plan, tokenizer: Any) -> list[dict[str, Any]]:
    """One row of the trainer's data for each demonstration whose prompt is short enough."""
    demonstrations = short_enough(plan.task.demonstrations, plan.config, tokenizer, plan.console, what="demonstrations")
    template_options = dict(plan.config.model.chat_template_kwargs)
    rows = []
    for demonstration in demonstrations:
        reply = {"role": "assistant", "content": demonstration.completion}
        row: dict[str, Any] = {"prompt": list(demonstration.prompt), "completion": [reply]}
        if template_options:
            row["chat_template_kwargs"] = template_options
        rows.append(row)
    return rows
