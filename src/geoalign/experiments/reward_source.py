"""Which reward a run learns from: verified answers, or whatever its task brings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from geoalign.experiments.reward_stage import open_reward_model
from geoalign.experiments.run import Run
from geoalign.rewards.base import RewardSource
from geoalign.rewards.verified import VerifiedReward
from geoalign.tasks.base import Task


def binary_reward(task: Task) -> bool:
    """Whether the clean rewards of a task are 0 or 1: they are, unless it has preferences for a reward model."""
    return not task.preference_pairs()


@contextmanager
def reward_source(run: Run) -> Iterator[RewardSource]:
    """The clean reward of a run; needs whatever the stages before RL have made."""
    if run.reward_model is not None:
        with open_reward_model(run) as learned:
            yield learned
    else:
        with VerifiedReward(run.config.reward) as verified:
            yield verified
