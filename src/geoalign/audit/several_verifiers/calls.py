"""The calls of one verifier: some rows each; what fails or takes too long costs its rows alone, and is counted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import pandas

from geoalign.answers.verifiers import NamedVerifier, Rows, Verdict
from geoalign.audit.answers import told_golds
from geoalign.secrets import masked
from geoalign.text import one_line

# What a verifier is told of a row, where the file says so.
_FIELDS = ["prompt", "response", "answer", "final_answer", "reward", "id", "step"]
# Rows of one call. What a call that fails was asked is lost, but for functions, which are then asked row by row.
_ROWS_PER_CALL = {"function": 100, "endpoint": 50}
_ROWS_PER_LONG_CALL = 500
# After so many calls in a row that failed a verifier is not asked again.
_MOST_FAILED_CALLS = {"function": 20}
_MOST_FAILED_LONG_CALLS = 2
# Seconds that a function may take to start, for each row of a call, and for a row that it is asked alone. Commands and
# endpoints have limits of their own.
START_SECONDS = 60.0
ROW_SECONDS = 1.0
LONE_ROW_SECONDS = 10.0


@dataclass
class AskedVerifier:
    """A verifier, and what became of the questions to it.

    Attributes:
        failed: rows on which it failed.
        first_failure: what its first failure said.
        failed_calls: calls that failed since the last one that did not.
    """

    verifier: NamedVerifier
    failed: int = 0
    first_failure: str | None = None
    failed_calls: int = 0

    @property
    def is_given_up(self) -> bool:
        """Whether so many calls failed one after the other that it is not asked any more."""
        return self.failed_calls >= _MOST_FAILED_CALLS.get(self.verifier.kind, _MOST_FAILED_LONG_CALLS)

    def verdicts(self, rows: pandas.DataFrame, gold_field: str | None) -> pandas.Series:
        """[N] 1 or 0, a number, or NaN where it has no verdict or failed, by the index of the rows.

        Args:
            rows: the columns of a dump, `final_answer` and `compared_answer`.
            gold_field: what the file calls the gold answer: functions know it under this name as well.
        """
        questions = _questions(rows, self.verifier, gold_field)
        size = _ROWS_PER_CALL.get(self.verifier.kind, _ROWS_PER_LONG_CALL)
        verdicts: list[Verdict] = []
        for start in range(0, len(questions), size):
            verdicts += self._verdicts_of_call(questions[start : start + size])
        numbers = [None if verdict is None else float(verdict) for verdict in verdicts]
        return pandas.Series(numbers, index=rows.index, dtype="float64")

    def _verdicts_of_call(self, rows: Rows) -> list[Verdict]:
        """What one call says; where it fails, a function is asked row by row, and others have lost these rows."""
        said = self._called(rows)
        if said is not None:
            return said
        if self.verifier.kind == "function" and len(rows) > 1:
            return [verdict for row in rows for verdict in self._verdicts_of_call([row])]
        self.failed += len(rows)
        return [None] * len(rows)

    def _called(self, rows: Rows) -> list[Verdict] | None:
        """What one call says; None where it fails or takes too long, or the verifier is not asked any more."""
        if self.is_given_up:
            return None
        try:
            with self._limit(len(rows)):
                verdicts = self.verifier.judge(rows)
        except (Exception, SystemExit, OutOfTime) as error:  # whatever a program of others raises is a failure of it
            self.failed_calls += 1
            self.first_failure = self.first_failure or masked(one_line(f"{type(error).__name__}: {error}"))
            return None
        self.failed_calls = 0
        return verdicts

    def _limit(self, rows: int) -> AbstractContextManager[None]:
        """The time that a call about so many rows may take."""
        if self.verifier.kind != "function":
            return nullcontext()
        return time_limit(LONE_ROW_SECONDS if rows == 1 else START_SECONDS + ROW_SECONDS * rows)


def _questions(rows: pandas.DataFrame, verifier: NamedVerifier, gold_field: str | None) -> Rows:
    """The rows as a verifier reads them; None for what the file does not say."""
    if verifier.needs_gold:
        # Math-Verify judges all spellings of an answer alike.
        rows = rows.assign(final_answer=rows["compared_answer"])
    prompts = rows["messages"].where(rows["messages"].notna(), rows["prompt"])
    questions = rows[_FIELDS].assign(prompt=prompts, answer=told_golds(rows))
    if verifier.kind == "function" and gold_field is not None and gold_field not in questions:
        questions[gold_field] = questions["answer"]
    records: Any = questions.astype(object).where(questions.notna(), None).to_dict("records")
    return [
        {**record, "prompt": list(record["prompt"]) if isinstance(record["prompt"], tuple) else record["prompt"]}
        for record in records
    ]


# --- a limit of time for code of others that runs in this process -----------------------------------------------------


class OutOfTime(BaseException):
    """Raised inside code that ran too long. It is no Exception, so that `except Exception` there does not keep it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises OutOfTime inside the block once so many seconds have passed, in whatever Python code it is then.

    A signal interrupts the main thread, even where it sleeps or waits for a network. It is SIGURG, which others ignore:
    verifiers such as Math-Verify have limits of their own by SIGALRM. In other threads, and on systems without such
    signals, nothing can interrupt a block, and there is no limit.
    """
    can_interrupt = hasattr(signal, "pthread_kill") and threading.current_thread() is threading.main_thread()
    if not can_interrupt:
        yield
        return
    thread = threading.get_ident()
    is_over = False

    def interrupt(*_: Any) -> None:
        if not is_over:
            raise OutOfTime(f"no verdict within {seconds:g} seconds")

    timer = threading.Timer(seconds, signal.pthread_kill, (thread, signal.SIGURG))
    timer.daemon = True
    before = signal.signal(signal.SIGURG, interrupt)
    timer.start()
    try:
        yield
    finally:
        # First of all: a signal that comes from here on says nothing any more.
        is_over = True
        timer.cancel()
        signal.signal(signal.SIGURG, signal.SIG_DFL if before is None else before)
