"""Which reward a run learns from: verified answers, or whatever its task brings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from geoalign.config.places import Places
from geoalign.errors import ConfigError
from geoalign.experiments.reward_stage import open_reward_model
from geoalign.experiments.run import Run
from geoalign.rewards.base import RewardSource
from geoalign.rewards.corruption import check_corruption
from geoalign.rewards.verified import VerifiedReward
from geoalign.tasks.base import Task


def check_reward(run: Run, places: Places | None = None) -> None:
    """Raises ConfigError for a corruption or a curator that the task's reward cannot serve, before anything is trained.

    Raises:
        ConfigError: a share of `reward` that this kind of reward does not know; a shortcut, or final answers for the
            curator, where the task has none.
        MissingExtraError: answers are to be verified, and math-verify is not installed.
    """
    settings, binary = run.config.reward, binary_reward(run.task)
    try:
        check_corruption(settings, binary=binary)
        if settings.shortcut > 0:
            run.task.takes_shortcut("")
    except ConfigError as error:
        key = str(error).partition(":")[0]
        raise ConfigError(f"{(places or Places()).prefix(key)}{error}") from error
    if "answers" in run.curator.requires:
        run.task.final_answer("")
    if binary:
        VerifiedReward(settings).close()


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
