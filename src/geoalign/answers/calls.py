"""Calls of reward functions of whatever kind: plain or asynchronous, with lists, arrays or single numbers."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterator, Mapping, Set
from typing import Any, TypeGuard

from geoalign.errors import InputError
from geoalign.text import quote


def is_async(function: Any) -> bool:
    """Whether a call gives a coroutine: of an `async def` function or method, of an object whose class has an
    `async def __call__`, and of partials of these, as TRL tells them apart."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def awaited(result: Any, seconds: float | None = None) -> Any:
    """The result itself, or where it is an awaitable or an asynchronous generator what that comes to.

    It runs in one event loop for all calls, in a thread of its own, as in TRL: a caller may be inside a running loop,
    and a client may keep its connections from call to call. After so many `seconds` it is cancelled: TimeoutError.
    """
    if not _is_pending(result):
        return result
    future = asyncio.run_coroutine_threadsafe(_finished(result), _loop(os.getpid()))
    try:
        return future.result(seconds)
    except BaseException:
        # On Ctrl-C and after its time the call ends too.
        future.cancel()
        raise


def reward_list(result: Any, rows: int, *, by: str, truth_values: bool = False) -> list[float | None]:
    """The rewards that a reward function returned for its completions, as numbers; None where it gave none.

    Args:
        result: a list, tuple, generator, array or tensor of numbers (single tensors among them) and None.
        rows: how many completions there are.
        by: the function, for messages.
        truth_values: truth values stay what they are, as of a verifier; else they are 1 and 0.

    Raises:
        InputError: one value for all, another number of rewards, or an entry that is no number.
    """
    expected = f"{by}: expected a list of {rows} rewards, one number or None per completion"
    unordered = (str, bytes, Mapping, Set)
    try:
        values = None if isinstance(result, unordered) else list(result)
    except TypeError:  # a number, or a tensor of one
        values = None
    if values is None:
        raise InputError(
            f"{expected}; got {quote(result)}. Return one reward for each of `completions`, in their order: for a "
            "single value [value] * len(completions)"
        )
    if len(values) != rows:
        raise InputError(f"{expected}; got {len(values)}. Return one reward for each of `completions`, in their order")
    return [_number(value, expected, row, truth_values=truth_values) for row, value in enumerate(values)]


def _number(value: Any, expected: str, row: int, *, truth_values: bool) -> float | None:
    """One entry of what a reward function returned as a number; InputError, which begins with `expected`, for none."""
    if value is None:
        return None
    plain = value.tolist() if hasattr(value, "tolist") else value
    if truth_values and isinstance(plain, bool):
        return plain
    try:
        # A text such as "1.0" is more likely a judge's reply that nobody has read.
        if isinstance(plain, (str, bytes)):
            raise TypeError
        return float(plain)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{expected}; got {quote(plain)} for completion {row}. Return None for one that could not be scored"
        ) from None


def function_name(reward: Any) -> str:
    """The name under which its failures are reported."""
    while isinstance(reward, functools.partial):  # as TRL names it
        reward = reward.func
    return getattr(reward, "__name__", type(reward).__name__)


def _is_pending(result: Any) -> TypeGuard[Awaitable[Any] | AsyncIterator[Any]]:
    return inspect.isawaitable(result) or isinstance(result, AsyncIterator)


def _finished(result: Awaitable[Any] | AsyncIterator[Any]) -> Coroutine[Any, Any, Any]:
    """A coroutine of what an awaitable or asynchronous generator comes to; of a generator the list."""

    async def finish() -> Any:
        if isinstance(result, AsyncIterator):
            return [value async for value in result]
        found = await result
        return list(found) if isinstance(found, Iterator) else found

    return finish()


def _loop_runs_here() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """The event loop of `awaited` in this process; a fork has none of its parent's threads."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="geoalign-rewards", daemon=True).start()
    return loop
