"""Reward functions that raise: their rows are unscored, not scored 0, and the training goes on."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from torch import nn


class FailedRewards:
    """Wraps the reward functions of a trainer.

    Args:
        raises: whether an error is to be raised as it came, asked when there is one: evaluation is left as it is.

    Attributes:
        requests: the `request_id` of every sample for which a function raised; the caller empties it.
    """

    def __init__(self, raises: Callable[[], bool]) -> None:
        self._raises = raises
        self.requests: set[str] = set()

    def guard(self, trainer: Any) -> None:
        """Puts the wrapped functions in the place of the trainer's; reward models stay, their plug-ins are wrapped."""
        trainer.reward_funcs = [f if isinstance(f, nn.Module) else self.guarded(f) for f in trainer.reward_funcs]
        plugins = trainer.reward_model_plugins
        trainer.reward_model_plugins = [None if plugin is None else self.guarded(plugin) for plugin in plugins]

    def guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with None for each of its rows where it raises; asynchronous if it is."""
        call = getattr(function, "__call__", None)  # noqa: B004 (ms-swift asks in the same way)
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):

            async def awaited(*args: Any, **kwargs: Any) -> Any:
                try:
                    return await function(*args, **kwargs)
                except Exception as error:
                    return self._unscored(function, error, kwargs)

            return awaited

        def called(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                return self._unscored(function, error, kwargs)

        return called

    def _unscored(self, function: Any, error: Exception, kwargs: dict[str, Any]) -> list[None]:
        if self._raises():
            raise error
        rows = kwargs["request_id"]
        self.requests.update(rows)
        name = getattr(function, "__name__", type(function).__name__)
        logging.getLogger(__name__).warning(
            "reward function %s raised: %d rows unscored", name, len(rows), exc_info=error
        )
        return [None] * len(rows)
