"""The reward model: a sequence classifier trained on preference pairs by TRL's `RewardTrainer`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import RewardConfig, RewardTrainer

from geoalign.errors import ConfigError
from geoalign.lab.models.models import CODE_SETTING
from geoalign.lab.tasks.base import PreferencePair
from geoalign.lab.train.trainers import InRunFolder
from geoalign.pretrained import from_pretrained


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
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
