"""The reward function of the RL stage: corrupted where asked for, with its failures in the metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from geoalign.rewards.base import RewardSource
from geoalign.rewards.corruption import RewardWithCorruption

# Counters of a reward source that say how much it did; all others say why a response was not scored, or not read.
_NOT_SHOWN = ("scored", "correct", "compared")


class CountedReward:
    """Passes a call on to a corrupted reward and logs what only it knows, over the responses of this generation batch.

    `true_reward` is the mean of the clean rewards. Where the source has `counters`, `reward/<name>` is the number of
    responses that could not be scored or read: `no_answer`, `refused`, `timeouts`, `errors` of `VerifiedReward`.
    """

    def __init__(self, reward: RewardWithCorruption, source: RewardSource, *, processes: int = 1) -> None:
        self.__name__ = reward.__name__
        self._reward = reward
        self._processes = processes
        self._counters: Mapping[str, int] = getattr(source, "counters", {})

    def __call__(
        self, *args: Any, log_metric: Callable[[str, float], None] | None = None, **kwargs: Any
    ) -> list[float]:
        """The rewards of this process's rows."""
        before = dict(self._counters)
        rewards = self._reward(*args, **kwargs)
        if log_metric is not None:
            for name in before:
                if name not in _NOT_SHOWN:
                    # TRL logs the mean over the processes; these are counts of the whole batch.
                    log_metric(f"reward/{name}", float(self._counters[name] - before[name]) * self._processes)
            scored = [reward for reward in self._reward.true_rewards if not math.isnan(reward)]
            if scored:
                log_metric("true_reward", sum(scored) / len(scored))
        return rewards
