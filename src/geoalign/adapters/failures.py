"""Calls of reward functions of whatever kind: some are asynchronous, some fail, by an error or by taking too long."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn

from geoalign.answers.calls import _finished, _is_pending, _loop_runs_here, awaited, function_name, is_async
from geoalign.errors import ConfigError

_LOGGER = logging.getLogger(__name__)
_Call = Callable[[], Any]


def unscored_on_failure(score: Callable[..., Any], *, timeout: float | None = None) -> Callable[..., Any]:
    """A reward function of one row that gives NaN, which the adapters leave unscored, where `score` fails.

    Failures are logged as warnings.

    Args:
        score: any arguments and result, synchronous or asynchronous (then so is the result); no model. Where a
            synchronous one returns an awaitable, so does the result to a caller inside an event loop (slime's); to
            any other caller it is awaited.
        timeout: seconds; None: no limit. A synchronous call runs in a thread, which cannot be stopped and where
            signals (math-verify's own timeouts) fail; an asynchronous one is cancelled.

    Raises:
        ConfigError: `score` is no function, or `timeout` is not positive.
    """
    check_function(score, timeout)

    def failed(error: Exception, _: Any) -> float:
        warn_of_failure(score, error, "a row without a reward")
        return math.nan

    return guarded_call(score, failed, timeout, hand_on=True)


def guarded_call(
    reward: Callable[..., Any],
    failed: Callable[[Exception, dict[str, Any]], Any],
    timeout: float | None = None,
    *,
    hand_on: bool = False,
) -> Callable[..., Any]:
    """A function in the place of `reward`: its result, or what `failed` makes of its error and its keywords; `hand_on`
    as in `guarded`."""

    def plan(*args: Any, **kwargs: Any) -> tuple[list[_Call], Callable[[Sequence[Any]], Any]]:
        def finish(results: Sequence[Any]) -> Any:
            return failed(results[0], kwargs) if isinstance(results[0], Exception) else results[0]

        return [functools.partial(reward, *args, **kwargs)], finish

    return guarded(reward, plan, timeout, hand_on=hand_on)


def guarded(
    reward: Callable[..., Any],
    plan: Callable[..., tuple[list[_Call], Callable[[Sequence[Any]], Any]]],
    timeout: float | None = None,
    *,
    hand_on: bool = False,
) -> Callable[..., Any]:
    """A function in the place of `reward`, asynchronous if that is (`is_async`), of which an error is a value.

    Args:
        plan: makes of its arguments the calls of `reward`, and what makes its result of theirs: each what it returned
            (of a generator the list), or the error that it raised.
        hand_on: where a synchronous `reward` returns an awaitable, and the caller is inside an event loop, return an
            awaitable too; without it the caller waits for the result.
    """
    if is_async(reward):

        @functools.wraps(reward)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            calls, finish = plan(*args, **kwargs)
            return finish(await asyncio.gather(*[_awaited_outcome(call, timeout) for call in calls]))
    else:

        @functools.wraps(reward)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            calls, finish = plan(*args, **kwargs)
            outcomes = [_outcome(call, timeout) for call in calls]
            if not any(_is_pending(outcome) for outcome in outcomes):
                return finish(outcomes)

            async def finish_later() -> Any:
                return finish(await asyncio.gather(*[_settled(outcome, timeout) for outcome in outcomes]))

            return finish_later() if hand_on and _loop_runs_here() else awaited(finish_later())

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


def _outcome(call: _Call, timeout: float | None) -> Any:
    def run() -> Any:
        try:
            result = call()
            # A generator raises its errors only while it is being read.
            return list(result) if isinstance(result, Iterator) else result
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
    try:
        pending = call()
    except Exception as error:
        return error
    return await _settled(pending, timeout)


async def _settled(outcome: Any, timeout: float | None) -> Any:
    """The result of an awaitable outcome, or the error that it raises; any other outcome is returned unchanged."""
    if not _is_pending(outcome):
        return outcome
    # A cancellation from outside goes through.
    try:
        return await asyncio.wait_for(_finished(outcome), timeout)
    except TimeoutError as error:
        return error if str(error) else TimeoutError(f"no reward within {timeout} s")
    except Exception as error:
        return error
