"""The reward function of the RL stage: corrupted where asked for, with its failures in the metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from geoalign.rewards.corruption import RewardWithFlips
from geoalign.rewards.verified import VerifiedReward

# Counters of `VerifiedReward` worth a look while training: why a response counts as wrong without being read as wrong.
_SHOWN = ("no_answer", "refused", "timeouts", "errors")


class CountedReward:
    """Passes a call on to `RewardWithFlips` and logs `reward/no_answer`, `refused`, `timeouts` and `errors` of it.

    Each is the number of responses of this generation batch.
    """

    def __init__(self, reward: RewardWithFlips, verified: VerifiedReward) -> None:
        self.__name__ = reward.__name__
        self._reward = reward
        self._verified = verified

    def __call__(
        self, *args: Any, log_metric: Callable[[str, float], None] | None = None, **kwargs: Any
    ) -> list[float]:
        """The rewards of this process's rows."""
        before = dict(self._verified.counters)
        rewards = self._reward(*args, **kwargs)
        if log_metric is not None:
            for name in _SHOWN:
                log_metric(f"reward/{name}", float(self._verified.counters[name] - before[name]))
        return rewards
