"""The warm start: supervised fine-tuning on a task's demonstrations, by TRL's `SFTTrainer`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

from geoalign.errors import ConfigError
from geoalign.lab.train.trainers import InRunFolder


class WarmStartTrainer(InRunFolder, SFTTrainer):
    """TRL's trainer on demonstrations."""


def warm_start(
    model: Any,
    tokenizer: Any,
    rows: Sequence[dict[str, Any]],
    options: SFTConfig,
    *,
    callbacks: Sequence[TrainerCallback],
    resume_from: Path | None,
) -> None:
    """Trains `model` in place on prompt-completion rows; the loss counts completion tokens only.

    Args:
        rows: dicts with "prompt" and "completion", both texts or both lists of chat messages.
        resume_from: a complete checkpoint of the same run to go on from.

    Raises:
        ConfigError: no rows.
    """
    if not rows:
        raise ConfigError("sft: expected a task with demonstrations, got none; `sft: null` leaves the warm start out")
    trainer = WarmStartTrainer(
        model=model,
        args=options,
        train_dataset=Dataset.from_list(list(rows)),
        processing_class=tokenizer,
        callbacks=list(callbacks),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
