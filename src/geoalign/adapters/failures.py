"""Calls of reward functions that may fail: by an error, or by taking too long."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import math
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

from geoalign.errors import ConfigError

_LOGGER = logging.getLogger(__name__)
_Call = Callable[[], Any]


def unscored_on_failure(score: Callable[..., Any], *, timeout: float | None = None) -> Callable[..., Any]:
    """A reward function of one row that gives NaN, which the adapters leave unscored, where `score` fails.

    Failures are logged as warnings.

    Args:
        score: any arguments and result, synchronous or asynchronous (then so is the result); no model.
        timeout: seconds; None: no limit. A synchronous call runs in a thread, which cannot be stopped and where
            signals (math-verify's own timeouts) fail; an asynchronous one is cancelled.

    Raises:
        ConfigError: `score` is no function, or `timeout` is not positive.
    """
    check_function(score, timeout)

    def failed(error: Exception, _: Any) -> float:
        warn_of_failure(score, error, "a row without a reward")
        return math.nan

    return guarded_call(score, failed, timeout)


def guarded_call(
    reward: Callable[..., Any], failed: Callable[[Exception, dict[str, Any]], Any], timeout: float | None = None
) -> Callable[..., Any]:
    """A function in the place of `reward`: its result, or what `failed` makes of its error and its keywords."""

    def plan(*args: Any, **kwargs: Any) -> tuple[list[_Call], Callable[[Sequence[Any]], Any]]:
        def finish(results: Sequence[Any]) -> Any:
            return failed(results[0], kwargs) if isinstance(results[0], Exception) else results[0]

        return [functools.partial(reward, *args, **kwargs)], finish

    return guarded(reward, plan, timeout)


def guarded(
    reward: Callable[..., Any],
    plan: Callable[..., tuple[list[_Call], Callable[[Sequence[Any]], Any]]],
    timeout: float | None = None,
) -> Callable[..., Any]:
    """A function in the place of `reward`, asynchronous if that is, of which an error is a value.

    `plan` makes of its arguments the calls of `reward`, and what makes its result of theirs: each what it returned, or
    the error that it raised.
    """
    if inspect.iscoroutinefunction(reward) or inspect.iscoroutinefunction(type(reward).__call__):

        @functools.wraps(reward)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            calls, finish = plan(*args, **kwargs)
            return finish(await asyncio.gather(*[_awaited_outcome(call, timeout) for call in calls]))
    else:

        @functools.wraps(reward)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            calls, finish = plan(*args, **kwargs)
            return finish([_outcome(call, timeout) for call in calls])

    wrapper.__name__ = function_name(reward)
    return wrapper


def warn_of_failure(reward: Any, error: Exception, rows: str) -> None:
    """Logs the error of a reward function, and what it cost."""
    why = f"{type(error).__name__}: {error}"
    _LOGGER.warning("reward function %r failed (%s): %s", function_name(reward), why, rows)


def check_function(reward: Any, timeout: float | None) -> None:
    """Raises ConfigError unless `reward` is a function, not a model, and `timeout` positive or None."""
    if isinstance(reward, nn.Module) or not callable(reward):
        raise ConfigError(f"reward: expected a function, got {type(reward).__name__}")
    if timeout is not None and not timeout > 0:
        raise ConfigError(f"timeout: expected a positive number of seconds or None, got {timeout}")


def function_name(reward: Any) -> str:
    """The name under which its failures are reported."""
    inner = reward.func if isinstance(reward, functools.partial) else reward  # as TRL names it
    return getattr(inner, "__name__", type(inner).__name__)


def _outcome(call: _Call, timeout: float | None) -> Any:
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


async def _awaited_outcome(call: _Call, timeout: float | None) -> Any:
    # A cancellation from outside goes through.
    try:
        return await asyncio.wait_for(call(), timeout)
    except TimeoutError as error:
        return error if str(error) else TimeoutError(f"no reward within {timeout} s")
    except Exception as error:
        return error
