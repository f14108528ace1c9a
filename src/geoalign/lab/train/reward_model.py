"""The stages of reward model and gold model: sequence classifiers trained on pairs by TRL's `RewardTrainer`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, TrainerCallback
from trl import RewardConfig, RewardTrainer

from geoalign.errors import ConfigError
from geoalign.lab.evaluation.preference import hold_out_prompts, pair_accuracy
from geoalign.lab.models.models import CODE_SETTING, merged, merged_from, save, with_adapters
from geoalign.lab.rewards.reward_model import RewardModelScorer
from geoalign.lab.store.files import beside, replace_folder
from geoalign.lab.store.json_files import append_line, write_json
from geoalign.lab.store.records import next_stage, note_records, stage_checkpoints
from geoalign.lab.store.run_folder import ACCURACY_FILE
from geoalign.lab.store.seals import checkpoint_step, is_last, latest_complete, mark_complete
from geoalign.lab.tasks.base import PreferencePair
from geoalign.lab.train.reward_head import fit_head
from geoalign.lab.train.run import Run
from geoalign.lab.train.trainers import InRunFolder, ProgressBar, run_trainer, stage_callbacks
from geoalign.pretrained import from_pretrained

REWARD_MODEL, GOLD_MODEL = "reward_model", "gold_model"

_HELD_OUT_MOST = 1024


def reward_model_stage(run: Run) -> None:
    """Makes the reward model, `checkpoints/reward_model`, from the warm-started model; nothing if it is there.

    A share of the pairs (the task's `held_out_share`, at most 1,024, with all pairs of their prompts) is held out. How
    often the chosen response of these has the higher score is logged at the end of the stage and kept in the folder;
    where there is a gold model, both are tested on what is held out for either. A task without pairs needs no reward
    model.
    """
    if run.reward_model is not None:
        _make(run, REWARD_MODEL, run.reward_model, seed=run.seed)


def gold_model_stage(run: Run) -> None:
    """Makes the gold model, `checkpoints/gold_model`, in the same way from pairs that the reward model never sees.

    Its head is drawn from another seed: two models with one head would err alike.
    """
    if run.gold_model is not None:
        _make(run, GOLD_MODEL, run.gold_model, seed=run.seed + 1)


def _make(run: Run, stage: str, options: RewardConfig, *, seed: int) -> None:
    if (run.folder.checkpoints / stage).is_dir():
        return
    run.processes.barrier()  # all have looked before one writes
    pairs, held_out = _split(run)
    if run.reward_head is not None:
        model, tokenizer = _new_model(run, run.folder.warm_started, seed)
        fit_head(model.to(run.grpo.device), tokenizer, pairs[stage], run.reward_head)
    else:
        model, tokenizer = _trained(run, stage, options, pairs[stage], seed)
    if run.processes.is_main:
        _keep(run, stage, model, tokenizer, held_out)
    run.processes.barrier()


def _trained(
    run: Run, stage: str, options: RewardConfig, pairs: Sequence[PreferencePair], seed: int
) -> tuple[Any, Any]:
    """The model trained by TRL, or that of the stage's last checkpoint; one of adapters holds only these."""
    checkpoints, lora = stage_checkpoints(run.folder)[stage], run.model.lora
    resume_from = latest_complete(checkpoints)
    if resume_from is not None and is_last(resume_from):
        if lora is None:
            return _new_model(run, resume_from, seed)
        model, tokenizer = _new_model(run, run.folder.warm_started, seed)
        return merged_from(model, resume_from), tokenizer
    model, tokenizer = _new_model(run, run.folder.warm_started, seed)
    model = with_adapters(model, lora, seed=seed, kind="SEQ_CLS")
    bar = ProgressBar(run.console, stage.replace("_", " "), {"loss": "loss", "accuracy": "accuracy"})
    with bar:
        callbacks = stage_callbacks(run, stage, checkpoints, bar)
        train_reward_model(model, tokenizer, pairs, options, callbacks=callbacks, resume_from=resume_from)
    return merged(model), tokenizer


def _new_model(run: Run, folder: Path, seed: int) -> tuple[Any, Any]:
    code = run.model.trust_remote_code
    return first_reward_model(folder, dtype=run.model.dtype, seed=seed, trust_remote_code=code)


def _split(run: Run) -> tuple[dict[str, list[PreferencePair]], list[PreferencePair]]:
    """The pairs that each stage trains on, and those held out of any."""
    trained_on, held_out = {}, []
    for stage, pairs in ((REWARD_MODEL, run.task.preference_pairs()), (GOLD_MODEL, run.task.gold_pairs())):
        if pairs:
            share = run.task.held_out_share
            trained_on[stage], kept = hold_out_prompts(pairs, share, most=_HELD_OUT_MOST, seed=run.seed)
            held_out += kept
    return trained_on, held_out


def _keep(run: Run, stage: str, model: Any, tokenizer: Any, held_out: Sequence[PreferencePair]) -> None:
    """Saves a model with what it gets right on the pairs held out; its folder is there only if complete."""
    folder = run.folder
    made = folder.checkpoints / stage
    written = beside(made)
    save(model, tokenizer, written)
    with open_reward_model(run, written) as scorer:
        accuracy = asdict(pair_accuracy(scorer, held_out, run.task.takes_shortcut))
    write_json(written / ACCURACY_FILE, accuracy)
    step = checkpoint_step(latest) if (latest := latest_complete(stage_checkpoints(folder)[stage])) else 0
    line = {"stage": stage, "step": step, **{f"heldout/{name}": value for name, value in accuracy.items()}}
    append_line(folder.metrics, line)
    mark_complete(written)
    replace_folder(written, made)
    note_records(folder, next_stage(folder, run.learned), 0)


def open_reward_model(run: Run, path: Path | str) -> RewardModelScorer:
    """The scorer of a reward model, on the device of training unless the settings name one."""
    settings = run.reward.model
    return RewardModelScorer.load(path, replace(settings, device=settings.device or str(run.grpo.device)))


class PreferenceTrainer(InRunFolder, RewardTrainer):
    """TRL's trainer on preference pairs."""


def first_reward_model(folder: Path, *, dtype: str, seed: int, trust_remote_code: bool = False) -> tuple[Any, Any]:
    """A language model saved in `folder`, as a sequence classifier with one output, and its tokenizer.

    The head that turns the last hidden state into the score is new, drawn from `seed`. Of an earlier reward model, such
    as a checkpoint of this stage, the head is that of the checkpoint.
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


def train_reward_model(
    model: Any,
    tokenizer: Any,
    pairs: Sequence[PreferencePair],
    options: RewardConfig,
    *,
    callbacks: Sequence[TrainerCallback],
    resume_from: Path | None,
) -> None:
    """Trains `model` in place to score the chosen reply of each pair above the rejected one (Bradley-Terry).

    Args:
        pairs: in any order; the trainer shuffles.
        resume_from: a complete checkpoint of the same run to go on from.

    Raises:
        ConfigError: no pairs.
    """
    if not pairs:
        raise ConfigError("reward_model: expected a task with preference pairs, got none")
    trainer = PreferenceTrainer(
        model=model,
        args=options,
        train_dataset=Dataset.from_list([preference_row(pair) for pair in pairs]),
        processing_class=tokenizer,
        callbacks=list(callbacks),
    )
    run_trainer(trainer, resume_from)
