"""Asks a judge about many comparisons at once, each until there is a verdict or no more tries are left."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Protocol

from geoalign.errors import GeoAlignError
from geoalign.lab.judge.outcome import Answer
from geoalign.lab.judge.prompt import Comparison
from geoalign.lab.judge.verdict import MAX_CHARACTERS, MalformedVerdictError, parse_verdict


class RequestFailedError(GeoAlignError, ConnectionError):
    """The endpoint gave no usable answer to one request; the message says what came instead."""


class EndpointError(GeoAlignError, ConnectionError):
    """The endpoint answers nothing any more: judging is broken off."""


class Judge(AbstractAsyncContextManager["Judge"]):
    """What can be asked about a comparison, by many tasks at once, within an `async with` block."""

    name: str

    @abstractmethod
    def key(self, comparison: Comparison) -> str:
        """A hash of all that the answer depends on."""

    @abstractmethod
    async def ask(self, comparison: Comparison) -> str:
        """The judge's text, whatever it is; raises RequestFailedError where none came."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """Nothing to close, unless a judge says otherwise."""


class MemoryAnswers:
    """Answers kept for one call only, for a judge that costs nothing."""

    def __init__(self) -> None:
        self._answers: dict[str, list[str]] = {}

    def answers(self, key: str) -> tuple[str, ...]:
        """As `AnswerCache.answers`."""
        return tuple(self._answers.get(key, ()))

    def add(self, key: str, answer: str) -> None:
        """As `AnswerCache.add`, but not durable."""
        self._answers.setdefault(key, []).append(answer)


class Answers(Protocol):
    """Where the answers are kept."""

    def answers(self, key: str) -> tuple[str, ...]:
        """The answers to what `key` stands for, in the order in which they came."""

    def add(self, key: str, answer: str) -> None:
        """Keeps one more."""


async def ask_all(
    judge: Judge,
    comparisons: Mapping[str, Comparison],
    kept: Answers,
    *,
    malformed_retries: int,
    concurrency: int,
    failures_in_a_row: int,
    settled: Callable[[Answer], None] = lambda answer: None,
) -> dict[str, Answer]:
    """Settles every comparison, with what is kept first; a failed one is settled too, and nothing is kept of it.

    Args:
        comparisons: by their key.
        settled: called with each answer.

    Raises:
        EndpointError: so many comparisons failed one after another.
    """
    answers: dict[str, Answer] = {}
    waiting = iter(comparisons.items())
    streak = _Streak(failures_in_a_row)

    async def work(items: Iterator[tuple[str, Comparison]]) -> None:
        for key, comparison in items:
            answers[key] = await _settle(judge, key, comparison, kept, tries=malformed_retries + 1)
            settled(answers[key])
            streak.note(answers[key])

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(work(waiting))
    except BaseExceptionGroup as errors:
        # The first one; the other tasks were cancelled for it.
        raise errors.exceptions[0] from None
    return answers


async def _settle(judge: Judge, key: str, comparison: Comparison, kept: Answers, *, tries: int) -> Answer:
    while True:
        texts = kept.answers(key)
        answer = read_answers(texts, tries=tries)
        if answer is not None:
            return answer
        try:
            text = await judge.ask(comparison)
        except RequestFailedError as error:
            return Answer(None, "failed", str(error), len(texts), texts[-1] if texts else "")
        # What is too long to be a verdict is kept only so far that it is still seen to be.
        kept.add(key, text[: MAX_CHARACTERS + 1])


def read_answers(texts: Sequence[str], *, tries: int) -> Answer | None:
    """The first verdict among the first `tries` answers; "malformed" where none of so many is one; None where there are
    fewer, and the judge may be asked again."""
    reason = ""
    for number, text in enumerate(texts[:tries], start=1):
        try:
            return Answer(parse_verdict(text), "judged", "", number, text)
        except MalformedVerdictError as error:
            reason = str(error)
    return Answer(None, "malformed", reason, tries, texts[tries - 1]) if len(texts) >= tries else None


class _Streak:
    """Counts failures one after another."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._length = 0

    def note(self, answer: Answer) -> None:
        self._length = self._length + 1 if answer.status == "failed" else 0
        if self._length >= self._limit:
            raise EndpointError(
                f"expected answers from the judge, got none to {self._length} judgments in a row, "
                f"the last time: {answer.reason}\nThe answers so far are kept: the same command goes on."
            )
