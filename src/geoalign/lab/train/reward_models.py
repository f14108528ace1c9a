"""The reward model and the gold model of a run, trained on preference pairs by TRL's `RewardTrainer`.

The reward model's score is what RL learns from. The gold model, from pairs that the first never sees, only measures:
its score is the gold utility. With `reward_head` their heads alone are fitted (`reward_head`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from trl import RewardConfig, RewardTrainer

from geoalign.files.durable import replace_folder, temporary_path
from geoalign.files.json_files import append_line, write_json
from geoalign.lab.data.task import PreferencePair
from geoalign.lab.models.language_model import CODE_SETTING, merged, merged_from, save, with_adapters
from geoalign.lab.runs.folder import (
    ACCURACY_FILE,
    checkpoint_step,
    is_last_checkpoint,
    latest_complete,
    mark_complete,
    next_stage,
    note_records,
    stage_checkpoints,
)
from geoalign.lab.train.observed_reward import open_reward_model
from geoalign.lab.train.pair_accuracy import hold_out_prompts, pair_accuracy
from geoalign.lab.train.plan import Plan
from geoalign.lab.train.reward_head import fit_head
from geoalign.lab.train.stage import InRunFolder, Stage, run_trainer
from geoalign.pretrained.from_pretrained import from_pretrained

_MOST_HELD_OUT = 1024


class PreferenceTrainer(InRunFolder, RewardTrainer):
    """TRL's trainer on preference pairs: the chosen reply above the rejected one (Bradley-Terry)."""


def reward_model_stages(plan: Plan) -> None:
    """Makes `checkpoints/reward_model` and `checkpoints/gold_model` from the warm-started model, where the plan has
    them; nothing where they are there.

    A share of the pairs (the task's `held_out_share`, at most 1,024, with all pairs of their prompts) is held out. How
    often the chosen response of these has the higher score is logged at the end of the stage and kept in the folder;
    both models are tested on what is held out for either.
    """
    for stage in plan.learned:
        if (plan.folder.checkpoints / stage).is_dir():
            continue
        plan.processes.barrier()  # all have looked before one writes
        training_pairs, held_out = _split_pairs(plan)
        # The gold model's head is drawn from another seed: two models with one head would err alike.
        seed = plan.config.seed + 1 if stage == "gold_model" else plan.config.seed
        if plan.config.reward_head is not None:
            model, tokenizer = _new_model(plan, plan.folder.warm_started, seed)
            fit_head(model.to(plan.grpo.device), tokenizer, training_pairs[stage], plan.config.reward_head)
        else:
            model, tokenizer = _trained_model(plan, stage, training_pairs[stage], seed)
        if plan.processes.is_main:
            _test_and_save(plan, stage, model, tokenizer, held_out)
        plan.processes.barrier()


def _split_pairs(plan: Plan) -> tuple[dict[str, list[PreferencePair]], list[PreferencePair]]:
    """The pairs that each stage trains on, and those held out of any."""
    training_pairs = {}
    held_out = []
    for stage, pairs in (("reward_model", plan.task.preference_pairs), ("gold_model", plan.task.gold_pairs)):
        if not pairs:
            continue
        training_pairs[stage], kept = hold_out_prompts(
            pairs, plan.task.held_out_share, most=_MOST_HELD_OUT, seed=plan.config.seed
        )
        held_out += kept
    return training_pairs, held_out


def _trained_model(plan: Plan, stage: str, pairs: Sequence[PreferencePair], seed: int) -> tuple[Any, Any]:
    """The model that TRL has trained, or that of the stage's last checkpoint, and its tokenizer."""
    lora = plan.config.model.lora
    checkpoint = latest_complete(stage_checkpoints(plan.folder)[stage])
    if checkpoint is not None and is_last_checkpoint(checkpoint):
        if lora is None:
            return _new_model(plan, checkpoint, seed)
        # A checkpoint of adapters holds only these.
        model, tokenizer = _new_model(plan, plan.folder.warm_started, seed)
        return merged_from(model, checkpoint), tokenizer
    model, tokenizer = _new_model(plan, plan.folder.warm_started, seed)
    model = with_adapters(model, lora, seed=seed, kind="SEQ_CLS")
    with Stage(plan, stage, stage.replace("_", " "), {"loss": "loss", "accuracy": "accuracy"}) as callback:
        trainer = PreferenceTrainer(
            model=model,
            args=_options_of(plan, stage),
            train_dataset=Dataset.from_list([preference_row(pair) for pair in pairs]),
            processing_class=tokenizer,
            callbacks=[callback],
        )
        run_trainer(trainer, checkpoint)
    return merged(model), tokenizer


def _options_of(plan: Plan, stage: str) -> RewardConfig | None:
    return plan.gold_model if stage == "gold_model" else plan.reward_model


def _new_model(plan: Plan, folder: Path, seed: int) -> tuple[Any, Any]:
    model = plan.config.model
    return first_reward_model(folder, dtype=model.dtype, seed=seed, trust_remote_code=model.trust_remote_code)


def first_reward_model(folder: Path, *, dtype: str, seed: int, trust_remote_code: bool = False) -> tuple[Any, Any]:
    """A language model saved in `folder`, as a sequence classifier with one output, and its tokenizer; a new head is
    drawn from `seed`.
    """
    code: dict[str, Any] = {"trust_remote_code": trust_remote_code, "setting": CODE_SETTING}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = from_pretrained(
            AutoModelForSequenceClassification, folder, num_labels=1, dtype=getattr(torch, dtype), **code
        )
    return model, from_pretrained(AutoTokenizer, folder, **code)


def preference_row(pair: PreferencePair) -> dict[str, Any]:
    """One row of the trainer's data: prompt and both replies as chat messages."""
    return {
        "prompt": list(pair.prompt),
        "chosen": [{"role": "assistant", "content": pair.chosen}],
        "rejected": [{"role": "assistant", "content": pair.rejected}],
    }


def _test_and_save(plan: Plan, stage: str, model: Any, tokenizer: Any, held_out: Sequence[PreferencePair]) -> None:
    """Tests a model on the held-out pairs, and saves it with the result in a folder that is there only if complete."""
    folder = plan.folder
    target = folder.checkpoints / stage
    written = temporary_path(target)
    save(model, tokenizer, written)
    with open_reward_model(plan, written) as scorer:
        accuracy = pair_accuracy(scorer, held_out, plan.task.takes_shortcut)
    write_json(written / ACCURACY_FILE, accuracy)
    checkpoint = latest_complete(stage_checkpoints(folder)[stage])
    step = 0 if checkpoint is None else checkpoint_step(checkpoint)
    held_out_values = {f"heldout/{name}": value for name, value in accuracy.items()}
    append_line(folder.metrics, {"stage": stage, "step": step, **held_out_values})
    mark_complete(written)
    replace_folder(written, target)
    note_records(folder, next_stage(folder, plan.learned), 0)
