"""An algorithm for a fork of prime-rl, whose rewards a curator corrects (docs/forks.md: where it goes)."""

from __future__ import annotations

from typing import Any

import torch
from prime_rl.orchestrator.algo.base import Algorithm, iter_trainable_traces
from prime_rl.orchestrator.algo.routing import assign_advantages

from geoalign import Rollouts, boxed_answers, group_advantages
from geoalign.adapters.decision import decide, final_advantages, refuse
from geoalign.curators.registry import as_curator
from geoalign.curators.session import CurationSession


class GeoAlignAlgorithm(Algorithm):
    """Curates one group at a time: a curator that learns over a window of them learns from all prompts."""

    def __init__(self, config: Any, policy_pool: Any) -> None:
        super().__init__(config, policy_pool)
        self.session = CurationSession(as_curator(config.curator), seed=0)

    async def score_group(self, episodes: list[Any]) -> None:
        traces = [trace for _, trace in iter_trainable_traces(episodes)]
        if not traces:
            return
        rollouts = Rollouts(
            rewards=torch.tensor([trace.reward for trace in traces], dtype=torch.float32),
            groups=torch.zeros(len(traces), dtype=torch.long),
            lengths=torch.tensor([trace.num_output_tokens for trace in traces]),
            answers=boxed_answers([trace.last_reply for trace in traces]),
        )
        placed = decide(self.session, rollouts).assignment
        moved = placed.dropped or bool(placed.replaced.any())
        refuse({f"{self.session.name} moves rows; take a curator that changes rewards, such as denoise": moved})
        advantages = final_advantages(placed, lambda: group_advantages(placed.rewards, rollouts.groups, scale="none"))
        for trace, advantage in zip(traces, advantages.tolist(), strict=True):
            assign_advantages(trace, advantage)
