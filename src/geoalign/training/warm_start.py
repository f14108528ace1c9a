"""The warm start: supervised fine-tuning on a task's demonstrations, by TRL's `SFTTrainer`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

from geoalign.errors import ConfigError


class WarmStartTrainer(SFTTrainer):
    """TRL's trainer, without the model card that it writes at every checkpoint; its token count survives a
    resumption.
    """

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        # TRL counts `num_tokens` from zero again; the last logged value is that of the checkpoint (`sft_options`).
        counts = [entry["num_tokens"] for entry in self.state.log_history if "num_tokens" in entry]
        if checkpoint is not None and counts:
            self._total_train_tokens = int(counts[-1])

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Writes nothing: a run folder describes itself."""


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
