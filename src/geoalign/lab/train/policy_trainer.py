"""TRL's GRPO trainer with a curator between rewards and advantages, and what a run wants of it beside."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from geoalign.adapters.trl import GeoAlignGRPOTrainer
from geoalign.errors import UnscoredError
from geoalign.lab.generation.shared_prompts import sharing_prompts
from geoalign.lab.store.seals import MARK


class BeforeGeneration:
    """What a checkpoint needs that generating changes: the random generators and the token count, as they are now.

    Kept so that a generation that came to nothing leaves no trace.
    """

    def __init__(self, trainer: Any) -> None:
        self._python = random.getstate()
        self._numpy = np.random.get_state()
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        self._tokens = trainer.state.num_input_tokens_seen

    def save_checkpoint(self, trainer: Any) -> None:
        """Writes the checkpoint of the trainer's last update, unless it is there: a run resumes from it bit for bit.

        Checkpoints lie where the trainer would generate anew, and here it was about to. Before the first update there
        is nothing to keep.
        """
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        torch.set_rng_state(self._torch)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
        trainer.state.num_input_tokens_seen = self._tokens
        step = trainer.state.global_step
        there = Path(trainer.args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{step}" / MARK
        if step == 0 or not trainer.model.training or there.is_file():
            return
        trainer._save_checkpoint(trainer.model, trial=None)
        trainer.control = trainer.callback_handler.on_save(trainer.args, trainer.state, trainer.control)


class PolicyShift:
    """Mixin for a TRL GRPO trainer: logs `ppo_kl`, how far the policy has moved since it generated.

    It is the mean over response tokens of old minus new log-probability, measured whatever `beta` is.

    TRL logs a divergence only from the reference model, and only if `beta` is not zero. This one compares the
    policy with itself at generation time (the k1 estimate that PPO engines call `ppo_kl`), from the log-
    probabilities that TRL's loss computes anyway. Where TRL keeps no old ones (one update per generation) the two
    are equal, and it is 0 by construction. No tensor of TRL's is changed.
    """

    _new_logps: Tensor | None = None
    _listens: bool = False

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._get_per_token_logps_and_entropies(*args, **kwargs)  # type: ignore[misc]
        if self._listens:
            self._new_logps = result[0].detach()
        return result

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        self._listens, self._new_logps = True, None
        try:
            loss = super()._compute_loss(model, inputs)  # type: ignore[misc]
        finally:
            self._listens = False
        if self._new_logps is not None:
            self._log_shift(inputs, self._new_logps)
            self._new_logps = None
        return loss

    def _log_shift(self, inputs: dict[str, Any], new: Tensor) -> None:
        trainer: Any = self
        mask = inputs["completion_mask"].to(new.dtype)
        if "tool_mask" in inputs:
            mask = mask * inputs["tool_mask"]
        old = inputs.get("old_per_token_logps")
        moved = new.new_zeros(()) if old is None else ((old - new) * mask).sum()
        total = trainer.accelerator.reduce(torch.stack([moved, mask.sum()]), reduction="sum")
        mode = "train" if trainer.model.training else "eval"
        trainer._metrics[mode]["ppo_kl"].append((total[0] / total[1].clamp(min=1)).item())


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

    def _generate(self, prompts: list[Any]) -> Any:
        """Generates in the type that training computes in, with one pass over each prompt for all its rollouts.

        accelerate's autocast is around the outermost module only, and adapters of peft generate through the one inside.
        """
        trainer: Any = self
        model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
        with trainer.accelerator.autocast(), sharing_prompts(model):
            return super()._generate(prompts)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Writes nothing: a run folder describes itself."""
