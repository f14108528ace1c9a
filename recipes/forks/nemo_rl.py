"""An advantage estimator for a fork of NeMo-RL, whose rewards a curator corrects (docs/forks.md: where it goes)."""

from __future__ import annotations

from typing import Any

from nemo_rl.algorithms.advantage_estimator import GRPOAdvantageEstimator
from torch import Tensor

from geoalign import Rollouts, boxed_answers
from geoalign.adapters.decision import (
    decide,
    final_advantages,
    group_numbers,
    prefixed_metrics,
    refuse,
    rewards_stay,
)
from geoalign.curators.registry import as_curator
from geoalign.curators.session import CurationSession


class GeoAlignAdvantageEstimator(GRPOAdvantageEstimator):
    """NeMo-RL's GRPO advantages of the curated rewards of the whole batch."""

    def __init__(self, estimator_config: Any, loss_config: Any) -> None:
        super().__init__(estimator_config, loss_config)
        self.session = CurationSession(as_curator(estimator_config.curator), seed=0)
        self.last_metrics: dict[str, float] = {}

    def compute_advantage(
        self, prompt_ids: Tensor, rewards: Tensor, mask: Tensor, repeated_batch: Any, **kwargs: Any
    ) -> Tensor:
        rollouts = Rollouts(
            rewards=rewards.float().cpu(),
            groups=group_numbers(prompt_ids.tolist()),
            lengths=mask.sum(dim=1).long().cpu(),
            answers=boxed_answers([last_reply(messages) for messages in repeated_batch["message_log"]]),
        )
        decision = decide(self.session, rollouts)
        placed = decision.assignment
        moved = placed.dropped or bool(placed.replaced.any())
        refuse({f"{self.session.name} moves rows; take a curator that changes rewards, such as denoise": moved})
        self.last_metrics = prefixed_metrics(decision.metrics)
        curated = rewards if rewards_stay(placed, rollouts) else placed.rewards.to(rewards)
        of_engine = super().compute_advantage(prompt_ids, curated, mask)
        advantages = final_advantages(placed, lambda: of_engine[:, 0].cpu())
        return advantages.to(of_engine).unsqueeze(-1).expand(mask.shape)


def last_reply(messages: list[dict[str, Any]]) -> str:
    """What the policy said last in a conversation."""
    replies = [message["content"] for message in messages if message["role"] == "assistant"]
    return replies[-1] if replies else ""
