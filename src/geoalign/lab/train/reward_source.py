"""Which reward a run learns from: verified answers, the reward model it trains, a ready one, or one behind a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from geoalign.errors import ConfigError
from geoalign.lab.config.reward_model import RewardModelConfig
from geoalign.lab.rewards.base import RewardSource
from geoalign.lab.rewards.corruption import check_corruption
from geoalign.lab.rewards.ready_model import check_ready_model
from geoalign.lab.rewards.reward_model import RewardModelScorer
from geoalign.lab.rewards.verified import VerifiedReward
from geoalign.lab.train.reward_stage import open_reward_model
from geoalign.lab.train.run import Run
from geoalign.settings.locations import Locations


def check_reward(run: Run, places: Locations | None = None) -> None:
    """Raises ConfigError for a corruption or a curator that the task's reward cannot serve, before anything is trained.

    Raises:
        ConfigError: a share of `reward` that this kind of reward does not know; a shortcut, or final answers for the
            curator, where the task has none.
        ConfigError: a ready reward model is not there, or its server is not.
        MissingExtraError: answers are to be verified, and math-verify is not installed; or httpx2 for a server.
    """
    settings, binary = run.config.reward, binary_reward(run)
    try:
        check_corruption(settings, binary=binary)
        if settings.shortcut > 0:
            run.task.takes_shortcut("")
        _check_model(settings.model)
    except ConfigError as error:
        key = str(error).partition(":")[0]
        raise ConfigError(f"{(places or Locations()).prefix(key)}{error}") from error
    if "answers" in run.curator.requires:
        run.task.final_answer("")
    if binary:
        VerifiedReward(settings).close()


def binary_reward(run: Run) -> bool:
    """Whether the clean rewards of a run are 0 or 1: they are, unless a reward model gives them."""
    return run.reward_model is None and not run.config.reward.model.ready


@contextmanager
def reward_source(run: Run) -> Iterator[RewardSource]:
    """The clean reward of a run; needs whatever the stages before RL have made."""
    settings = run.config.reward.model
    if settings.url is not None:
        from geoalign.lab.rewards.served_model import ServedRewardModel

        with ServedRewardModel(settings) as served:
            yield served
    elif settings.path is not None:
        device = settings.device or str(run.grpo.device)
        with RewardModelScorer.load(settings.path, replace(settings, device=device)) as ready:
            yield ready
    elif run.reward_model is not None:
        with open_reward_model(run) as learned:
            yield learned
    else:
        with VerifiedReward(run.config.reward) as verified:
            yield verified


def _check_model(settings: RewardModelConfig) -> None:
    if settings.path is not None:
        check_ready_model(settings.path, settings)
    if settings.url is not None:
        from geoalign.lab.rewards.served_model import ServedRewardModel  # httpx2 only where there is a server

        with ServedRewardModel(settings) as served:
            served.check()
