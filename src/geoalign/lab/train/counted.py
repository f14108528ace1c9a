"""The reward function of the RL stage: corrupted where asked for, with its failures in the metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from geoalign.lab.rewards.base import RewardSource, check_scored, reasons, reasons_since
from geoalign.lab.rewards.corruption import Gather, RewardWithCorruption


class CountedReward:
    """Passes a call on to a corrupted reward and logs what only it knows, over the responses of this generation batch.

    `true_reward` is the mean of the clean rewards. Where the source has `counters`, `reward/<name>` is the number of
    responses that could not be scored or read: `no_answer`, `refused`, `timeouts`, `errors` of `VerifiedReward`.

    Args:
        max_unscored: raise UnscoredError where a larger share of the batch, of all processes, has no score.
        gather: the lists of all processes as one; needed with several processes.
    """

    def __init__(
        self,
        reward: RewardWithCorruption,
        source: RewardSource,
        *,
        processes: int = 1,
        max_unscored: float = 1.0,
        gather: Gather | None = None,
    ) -> None:
        self.__name__ = reward.__name__
        self._reward = reward
        self._processes = processes
        self._max_unscored = max_unscored
        self._gather = gather
        self._source = source

    def __call__(
        self, *args: Any, log_metric: Callable[[str, float], None] | None = None, **kwargs: Any
    ) -> list[float]:
        """The rewards of this process's rows."""
        before = reasons(self._source)
        rewards = self._reward(*args, **kwargs)
        found = reasons_since(self._source, before)
        self._check(found)
        if log_metric is not None:
            for name, number in found.items():
                # TRL logs the mean over the processes; these are counts of the whole batch.
                log_metric(f"reward/{name}", float(number) * self._processes)
            scored = [reward for reward in self._reward.true_rewards if not math.isnan(reward)]
            if scored:
                log_metric("true_reward", sum(scored) / len(scored))
        return rewards

    def _check(self, found: Mapping[str, int]) -> None:
        """Every process comes to the same verdict, so that none waits for one that has stopped."""
        gather = self._gather or (lambda items: items)
        whole: dict[str, int] = {}
        for one in gather([dict(found)]):
            for name, number in one.items():
                whole[name] = whole.get(name, 0) + number
        clean = gather(list(self._reward.true_rewards))
        check_scored(clean, self._max_unscored, why=whole, what="a generation batch")
