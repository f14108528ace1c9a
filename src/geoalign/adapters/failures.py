"""Calls of reward functions that may fail: by an error, or by taking too long."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import math
import queue
import threading
from collections.abc import Callable
from typing import Any

from torch import nn

from geoalign.errors import ConfigError

_LOGGER = logging.getLogger(__name__)


def unscored_on_failure(score: Callable[..., Any], *, timeout: float | None = None) -> Callable[..., Any]:
    """A reward function of one row that gives NaN, which the adapters leave unscored, where `score` fails.

    Failures are logged as warnings with their number so far.

    Args:
        score: any arguments and result, synchronous or asynchronous (then so is the result); no model.
        timeout: seconds; None: no limit. A synchronous call is left behind in a thread that cannot be stopped, an
            asynchronous one is cancelled.

    Raises:
        ConfigError: `score` is no function, or `timeout` is not positive.
    """
    check_function(score, timeout)
    failed = 0

    def scored(result: Any) -> Any:
        nonlocal failed
        if not isinstance(result, Exception):
            return result
        failed += 1
        name, why = function_name(score), f"{type(result).__name__}: {result}"
        _LOGGER.warning("reward function %r failed (%s): %d rows without a reward so far", name, why, failed)
        return math.nan

    if is_asynchronous(score):

        @functools.wraps(score)
        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            return scored(await awaited_outcome(functools.partial(score, *args, **kwargs), timeout))
    else:

        @functools.wraps(score)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return scored(outcome(functools.partial(score, *args, **kwargs), timeout))

    return wrapped


def check_function(reward: Any, timeout: float | None) -> None:
    """Raises ConfigError unless `reward` is a function, not a model, and `timeout` positive or None."""
    if isinstance(reward, nn.Module) or not callable(reward):
        raise ConfigError(f"reward: expected a function, got {type(reward).__name__}")
    if timeout is not None and not timeout > 0:
        raise ConfigError(f"timeout: expected a positive number of seconds or None, got {timeout}")


def is_asynchronous(reward: Any) -> bool:
    """Whether calling it gives a coroutine."""
    return inspect.iscoroutinefunction(reward) or inspect.iscoroutinefunction(type(reward).__call__)


def function_name(reward: Any) -> str:
    """The name under which its failures are reported."""
    return getattr(reward, "__name__", type(reward).__name__)


def outcome(call: Callable[[], Any], timeout: float | None) -> Any:
    """What the call returns, or the error that it raises."""

    def run() -> Any:
        try:
            return call()
        except Exception as error:
            return error

    if timeout is None:
        return run()
    done: queue.Queue[Any] = queue.Queue()
    threading.Thread(target=lambda: done.put(run()), daemon=True).start()
    try:
        return done.get(timeout=timeout)
    except queue.Empty:
        return TimeoutError(f"no reward within {timeout} s")


async def awaited_outcome(call: Callable[[], Any], timeout: float | None) -> Any:
    """What the awaited call returns, or the error that it raises; a cancellation from outside goes through."""
    try:
        return await asyncio.wait_for(call(), timeout)
    except TimeoutError as error:
        return error if str(error) else TimeoutError(f"no reward within {timeout} s")
    except Exception as error:
        return error
