import asyncio
import functools
import inspect
import logging
import math
import time

import pytest
import torch

from geoalign.adapters import failures
from geoalign.adapters.failures import unscored_on_failure
from geoalign.errors import ConfigError


def scored(text, broken=False, slow=False):
    if slow:
        time.sleep(5)
    if broken:
        raise ArithmeticError("no number")
    return {"score": 2.0, "text": text}


async def scored_later(text, broken=False, slow=False):
    await asyncio.sleep(60 if slow else 0)
    return scored(text, broken)


class Judge:
    func = scored  # no partial's

    def __call__(self, text):
        return {}


def test_an_object_goes_by_its_class():
    assert unscored_on_failure(Judge()).__name__ == unscored_on_failure(functools.partial(Judge())).__name__ == "Judge"


@pytest.mark.parametrize("reward", [scored, scored_later])
def test_what_it_returns_or_nan(reward, caplog):
    wrapped = unscored_on_failure(reward, timeout=1.0)
    assert inspect.iscoroutinefunction(wrapped) == inspect.iscoroutinefunction(reward)
    assert wrapped.__name__ == unscored_on_failure(functools.partial(reward)).__name__ == reward.__name__

    def call(*args, **kwargs):
        result = wrapped(*args, **kwargs)
        return asyncio.run(result) if inspect.iscoroutine(result) else result

    assert call("a") == {"score": 2.0, "text": "a"}
    assert call(text="b") == {"score": 2.0, "text": "b"}
    with caplog.at_level(logging.WARNING):
        started = time.monotonic()
        assert math.isnan(call("a", broken=True))
        assert math.isnan(call("a", slow=True))
        assert time.monotonic() - started < 4
    first, second = caplog.messages
    assert "failed (ArithmeticError: no number): a row without a reward" in first
    assert "failed (TimeoutError: no reward within 1.0 s): a row" in second


class AsyncJudge:
    async def __call__(self, text, bonus=0.0):
        if text == "broken":
            raise ArithmeticError("no number")
        return 1.0 + bonus

    async def method(self, text, bonus=0.0):
        return await self(text, bonus)

    def hidden(self, text, bonus=0.0):
        """Synchronous, and what it returns is not."""
        return self(text, bonus)


ASYNC = {
    "object": AsyncJudge(),
    "partial of an object": functools.partial(AsyncJudge(), bonus=0.0),
    "partial of a partial": functools.partial(functools.partial(AsyncJudge(), bonus=2.0), bonus=0.0),
    "bound method": AsyncJudge().method,
    "partial of a bound method": functools.partial(AsyncJudge().method, bonus=0.0),
}


@pytest.mark.parametrize("name", ASYNC)
def test_whatever_gives_a_coroutine_stays_asynchronous(name):
    wrapped = unscored_on_failure(ASYNC[name], timeout=9)
    assert inspect.iscoroutinefunction(wrapped)
    assert asyncio.run(wrapped("a")) == 1.0
    assert math.isnan(asyncio.run(wrapped("broken")))


def test_an_awaitable_of_a_synchronous_function_is_awaited_by_it_or_by_the_loop_that_calls_it():
    wrapped = unscored_on_failure(AsyncJudge().hidden, timeout=9)
    assert wrapped("a") == 1.0
    assert math.isnan(wrapped("broken"))

    async def engine():
        return await wrapped("a"), await wrapped("broken")

    value, failed = asyncio.run(engine())
    assert value == 1.0
    assert math.isnan(failed)


def test_an_awaitable_that_takes_too_long_is_unscored():
    async def slow(text):
        await asyncio.sleep(60)

    assert math.isnan(unscored_on_failure(lambda text: slow(text), timeout=0.1)("a"))


def test_awaitables_are_awaited_inside_a_running_loop_too_and_all_in_one():
    async def loop_of():
        return asyncio.get_running_loop()

    async def notebook():
        return failures.awaited(loop_of())

    assert asyncio.run(notebook()) is failures.awaited(loop_of())
    assert failures.awaited(3) == 3


def test_without_a_timeout_it_is_called_in_its_own_thread():
    import threading

    assert unscored_on_failure(threading.get_ident)() == threading.get_ident()


def test_a_cancellation_from_outside_goes_through():
    async def cancelled():
        await asyncio.wait_for(unscored_on_failure(scored_later, timeout=9)("a", slow=True), 0.1)

    with pytest.raises(TimeoutError):
        asyncio.run(cancelled())


@pytest.mark.parametrize(
    ("reward", "timeout", "message"),
    [
        (3, None, "reward: expected a function"),
        (torch.nn.Linear(1, 1), None, "reward: expected a function"),
        (scored, 0, "timeout: expected a positive number of seconds or None, got 0"),
    ],
)
def test_no_function_and_no_time(reward, timeout, message):
    with pytest.raises(ConfigError, match=message):
        unscored_on_failure(reward, timeout=timeout)
