"""A reward function of the user's own in TRL's form, named in the settings, with the task's truth logged next to it."""

from __future__ import annotations

import importlib
import importlib.machinery
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from geoalign.answers.calls import awaited, function_name, reward_list
from geoalign.answers.messages import response_text
from geoalign.answers.reward_source import RewardSource
from geoalign.errors import ConfigError, InputError
from geoalign.text import quote

RewardFunction = Callable[..., Sequence[float | None]]
# The setting that names it.
KEY = "reward.function"


def load_function(name: str, *, key: str = KEY) -> RewardFunction:
    """The function `MODULE:NAME`: of an importable module, or of a file `PATH.py` as seen from the working directory.

    Importing runs the module's code; nothing is imported unless the setting or option `key` names it.
    """
    module, _, attribute = name.rpartition(":")
    try:
        found = getattr(_imported(module), attribute)
    except (ImportError, OSError, AttributeError) as error:
        raise ConfigError(
            f"{key}: expected MODULE:NAME, an importable module or a file PATH.py, and a function in it; "
            f"got {quote(name)}: {error}"
        ) from error
    if not callable(found):
        raise ConfigError(f"{key}: expected a function, got {type(found).__name__} as {quote(name)}")
    function: RewardFunction = found
    return function


def _imported(module: str) -> Any:
    """The module of that name, or a new one with the code of the file `module`, which ends in `.py`."""
    if not module.endswith(".py"):
        return importlib.import_module(module)
    path = Path(module).expanduser()
    loader = importlib.machinery.SourceFileLoader(path.stem, str(path))
    loaded = ModuleType(path.stem)
    loaded.__file__ = str(path)
    loader.exec_module(loaded)
    return loaded


def function_rewards(function: RewardFunction, rows: int, **columns: Any) -> list[float]:
    """What the function says of `rows` completions; NaN where it returns None or NaN: one that could not be scored.

    An asynchronous function is awaited.

    Raises:
        InputError: it returns one value for all, another number of rewards, or what is no finite number.
    """
    results = reward_list(awaited(function(**columns)), rows, by=KEY)
    rewards = [math.nan if result is None else result for result in results]
    for row, reward in enumerate(rewards):
        if math.isinf(reward):
            raise InputError(f"{KEY}: expected a finite number or None, got {reward} for completion {row}")
    return rewards


class FunctionReward:
    """A reward function for TRL that returns what the user's function says, with the task's verdict as the truth.

    `true_rewards` are those of the last call by `source`; `counters` has `unscored`: how many it gave None or NaN.
    """

    def __init__(self, function: RewardFunction, source: RewardSource) -> None:
        self.__name__ = function_name(function)
        self._function = function
        self._source = source
        self.true_rewards: list[float] = []
        self.counters = {"unscored": 0}

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], *, answer: Sequence[str], **columns: Any
    ) -> list[float]:
        """The function's rewards of this process's rows."""
        responses = [response_text(completion) for completion in completions]
        self.true_rewards = list(self._source.score(responses, answer, prompts=prompts))
        rewards = function_rewards(
            self._function, len(completions), prompts=prompts, completions=completions, answer=answer, **columns
        )
        self.counters["unscored"] += sum(map(math.isnan, rewards))
        log_extra = columns.get("log_extra")
        if log_extra is not None:
            log_extra("true_reward", list(self.true_rewards))
        return rewards
