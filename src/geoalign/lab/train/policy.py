"""The RL stage: TRL's GRPO trainer with a curator between rewards and advantages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig

from geoalign.adapters.trl import CuratedStep, GeoAlignGRPOTrainer
from geoalign.adapters.trl.states import HiddenSource
from geoalign.curators.base import Curator
from geoalign.errors import UnscoredError
from geoalign.hidden.positions import HiddenPosition
from geoalign.lab.train.before_generation import BeforeGeneration
from geoalign.lab.train.policy_shift import PolicyShift
from geoalign.lab.train.trainer_engine import TrainerEngine, engine_of


class PolicyTrainer(PolicyShift, GeoAlignGRPOTrainer):
    """TRL's GRPO trainer with a curator and `ppo_kl`, without the model card that it writes at every checkpoint."""

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Logs `mean_abs_advantage` of the generation batch, over the rows of all processes, as the loss sees them.

        Where too few responses could be scored, a checkpoint is left as if the batch had never been begun.
        """
        trainer: Any = self
        before = BeforeGeneration(trainer)
        try:
            batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        except UnscoredError:
            before.save_checkpoint(trainer)
            raise
        size = trainer.accelerator.gather(batch["advantages"].abs()).mean().item()
        trainer._metrics["train" if trainer.model.training else "eval"]["mean_abs_advantage"].append(size)
        return batch

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Writes nothing: a run folder describes itself."""


@dataclass(frozen=True)
class Curating:
    """How the trainer curates, and who looks on: the keywords of `GeoAlignGRPOTrainer` beyond TRL's own."""

    curator: Curator
    hidden_position: HiddenPosition
    hidden_source: HiddenSource
    rollout_fields: Mapping[str, Any]
    observer: Callable[[CuratedStep], None]
    details_every: int


def train_policy(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Mapping[str, Any]],
    rewards: Sequence[Any],
    options: GRPOConfig,
    curating: Curating,
    *,
    callbacks: Sequence[TrainerCallback],
    resume_from: Path | None,
    tell_engine: Callable[[TrainerEngine | None], None] = lambda engine: None,
) -> None:
    """Trains `model` in place by GRPO on curated rollouts.

    Args:
        rows: one dict per prompt, in the order in which they are used (`plan_prompts`); TRL's sampler does not shuffle.
        rewards: TRL reward functions.
        resume_from: a complete checkpoint of the same run, written at a generation boundary.
        tell_engine: told the trainer's own engine before the first callback; None where it generates by the model.
    """
    trainer = PolicyTrainer(
        model=model,
        reward_funcs=list(rewards),
        args=options,
        train_dataset=Dataset.from_list([dict(row) for row in rows]),
        processing_class=tokenizer,
        callbacks=list(callbacks),
        curator=curating.curator,
        hidden_position=curating.hidden_position,
        hidden_source=curating.hidden_source,
        rollout_fields=dict(curating.rollout_fields),
        curation_observer=curating.observer,
        details_every=curating.details_every,
    )
    trainer.remove_callback(PrinterCallback)
    tell_engine(engine_of(trainer))
    trainer.train(resume_from_checkpoint=str(resume_from) if resume_from else None)
