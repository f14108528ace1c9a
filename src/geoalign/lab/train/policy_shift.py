"""How far the policy has moved since it generated: the "PPO KL", measured whatever `beta` is."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class PolicyShift:
    """Mixin for a TRL GRPO trainer: logs `ppo_kl`, the mean over response tokens of old minus new log-probability.

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
