"""Which reward a run learns from: verified answers, the reward model it trains, a ready one, or one behind a server."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from geoalign.errors import ConfigError
from geoalign.lab.rewards.base import RewardSource
from geoalign.lab.rewards.corruption import check_corruption
from geoalign.lab.rewards.function import load_function
from geoalign.lab.rewards.reward_model import check_ready_model
from geoalign.lab.rewards.verified import VerifiedReward
from geoalign.lab.train.reward_model import open_reward_model
from geoalign.lab.train.run import Run
from geoalign.settings.locations import NOWHERE, Locations


def check_reward(run: Run, locations: Locations = NOWHERE) -> None:
    """Raises ConfigError for a corruption or a curator that the task's reward cannot serve, before anything is trained.

    Raises:
        ConfigError: `reward.function` or `reward.appeals` names no function; or there is one, and a corruption too, or
            a curator that needs the rewards of reference responses, which are the task's.
        ConfigError: a share of `reward` that this kind of reward does not know; a shortcut, or final answers for the
            curator, where the task has none.
        ConfigError: a ready reward model is not there, or its server is not.
        MissingExtraError: answers are to be verified, and math-verify is not installed; or httpx2 for a server.
    """
    settings, model, binary = run.reward, run.reward.model, binary_reward(run)
    try:
        check_corruption(settings, binary=binary)
        _check_functions(run)
        if settings.shortcut > 0:
            run.task.takes_shortcut("")
        if model.path is not None:
            check_ready_model(model.path, model)
        if model.url is not None:
            from geoalign.lab.rewards.served_model import ServedRewardModel  # httpx2 only where there is a server

            with ServedRewardModel(model) as served:
                served.check()
    except ConfigError as error:
        key = str(error).partition(":")[0]
        raise ConfigError(f"{locations.prefix(key)}{error}") from error
    if "answers" in run.curator.requires:
        run.task.final_answer("")
    if binary:
        VerifiedReward(settings).close()


def _check_functions(run: Run) -> None:
    settings = run.reward
    for name in ("function", "appeals"):
        if (function := getattr(settings, name)) is not None:
            load_function(function, key=f"reward.{name}")
    if settings.function is None:
        return
    for name in ("flip", "extremes", "shortcut"):
        if (share := getattr(settings, name)) > 0:
            raise ConfigError(
                f"reward.{name}: expected 0 with reward.function, whose rewards stay as they are, got {share}"
            )
    if "reference_rewards" in run.curator.requires:
        raise ConfigError(
            "reward.function: expected a curator that needs no reference_rewards, which are the task's own"
        )


def binary_reward(run: Run) -> bool:
    """Whether the clean rewards of a run are 0 or 1: they are, unless a reward model gives them."""
    return run.reward_model is None and not run.reward.model.ready


def reward_source(run: Run) -> AbstractContextManager[RewardSource]:
    """The clean reward of a run, closed at the end of the block; needs whatever the stages before RL have made."""
    model = run.reward.model
    if model.url is not None:
        from geoalign.lab.rewards.served_model import ServedRewardModel

        return ServedRewardModel(model)
    if model.path is not None:
        return open_reward_model(run, model.path)
    if run.reward_model is not None:
        return open_reward_model(run, run.folder.reward_model)
    return VerifiedReward(run.reward)


def gold_source(run: Run) -> AbstractContextManager[RewardSource | None]:
    """The gold model's score, closed at the end of the block; None for a run without a gold model."""
    return nullcontext() if run.gold_model is None else open_reward_model(run, run.folder.gold_model)
