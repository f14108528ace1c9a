"""Processes that compare answers by math-verify, each with a time limit that holds whatever the answer is."""

from __future__ import annotations

import importlib.util
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from geoalign.answers.verdict_forms import without_name
from geoalign.errors import GeoAlignError, MissingExtraError

# Importing sympy takes a second, on a machine at its limit many.
_START_SECONDS = 120.0
# A worker that nobody can kill any more ends itself so long after the limit.
_GUARD_SECONDS = 10.0
# An answer such as 9^{9^{9^9}} asks for more memory than there is; then a MemoryError is better than a dead machine.
_MEMORY_BYTES = 4 * 2**30


class AnswerWorkers:
    """Up to `count` processes that run math-verify, started when first needed and replaced when killed.

    math-verify's own limit is an alarm in the main thread, which neither works in a thread nor interrupts one long call
    in C. Here a comparison that takes more than `timeout` seconds costs its process its life. The processes are started
    afresh, not forked: no state of torch, threads or devices is copied into them. POSIX only (it passes descriptors).
    """

    def __init__(self, *, count: int, timeout: float) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise MissingExtraError("verified answers need math-verify: pip install 'geoalign[trl]'")
        self._workers = [_Worker(timeout) for _ in range(count)]
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _end_all, self._workers, os.getpid())

    def compare(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        """ "correct", "wrong", "timeouts" or "errors" (math-verify failed) for each (gold, answer), in order."""
        if not pairs:
            return []
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            idle.put(worker)

        def compared(pair: tuple[str, str]) -> str:
            worker = idle.get()
            try:
                return worker.compare(pair)
            finally:
                idle.put(worker)

        with self._lock, ThreadPoolExecutor(min(len(self._workers), len(pairs))) as threads:
            try:
                return list(threads.map(compared, pairs))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                _end_all(self._workers, os.getpid())
                raise

    def close(self) -> None:
        """Ends every process; a later `compare` starts new ones."""
        with self._lock:
            _end_all(self._workers, os.getpid())


# Not a multiprocessing pool (pebble): its workers run a script without a main guard again, and outlive a killed parent.
class _Worker:
    """A place for one process, which is started when it is needed and no longer there."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._owner = 0  # who started the process: a forked child inherits the connection, and must not share it
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def compare(self, pair: tuple[str, str]) -> str:
        """Within the time limit, the start of a process not counted."""
        try:
            self._running().send(pair)
        except OSError:  # it died while idle
            self.end()
            self._running().send(pair)
        outcome = self._reply(self._timeout)
        if outcome in ("correct", "wrong", "errors"):
            return outcome
        self.end()
        return outcome or "errors"

    def end(self) -> None:
        """Kills the process, if there is one."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if process is not None and connection is not None:
            process.kill()
            process.wait()
            connection.close()

    def _reply(self, seconds: float) -> str:
        """What the process says; "timeouts" for nothing in time, "" where it is no longer there."""
        assert self._connection is not None
        try:
            return str(self._connection.recv()) if self._connection.poll(seconds) else "timeouts"
        except (EOFError, OSError):
            return ""

    def _running(self) -> Connection:
        if self._connection is not None and self._owner == os.getpid():
            return self._connection
        connection = self._start()
        if (said := self._reply(_START_SECONDS)) != "ready":
            self.end()
            raise GeoAlignError(f"verified answers: expected a process that runs math-verify, got {said or 'none'}")
        return connection

    def _start(self) -> Connection:
        self._owner = os.getpid()
        self._connection, theirs = Pipe()
        with theirs:
            number, path = theirs.fileno(), os.pathsep.join(entry or os.getcwd() for entry in sys.path)
            self._process = subprocess.Popen(
                # -P: a file in the working folder must not stand for a module of the library.
                [sys.executable, "-P", "-c", f"import {__name__} as it; it.main({number}, {self._timeout})"],
                pass_fds=[number],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            )
        return self._connection


def _end_all(workers: Sequence[_Worker], owner: int) -> None:
    # A forked child inherits these objects, but the processes are its parent's.
    if os.getpid() == owner:
        for worker in workers:
            worker.end()


def main(descriptor: int, timeout: float) -> None:
    """Answers pairs until its connection ends; says "ready" first, or why it cannot work."""
    connection = Connection(descriptor)
    # An interrupt at the keyboard is the parent's affair, which ends this process by ending its connection.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        equal = _comparison()
        # The first comparison loads grammars and much of sympy; no answer's time limit should pay for that.
        equal("\\sqrt{x+4}", "\\frac{x}{2}+1.5")
    except Exception as error:
        connection.send(f"{type(error).__name__}: {error}"[:500])
        return
    connection.send("ready")
    while True:
        try:
            gold, answer = connection.recv()
        except EOFError:
            return
        # The system ends this process after so many seconds, even with no parent left to kill it.
        signal.setitimer(signal.ITIMER_REAL, timeout + _GUARD_SECONDS)
        try:
            outcome = "correct" if equal(gold, answer) or equal(*without_name(gold, answer)) else "wrong"
        except Exception:  # whatever a parser makes of hostile text, no memory included; counted by the caller
            outcome = "errors"
        signal.setitimer(signal.ITIMER_REAL, 0)
        connection.send(outcome)


# Two numbers that math-verify calls equal by its absolute tolerances (six decimals where one is a decimal, 1e-15
# otherwise) are so only if they differ by no more than this share of the larger one. 0.001389 is 1/720, 0.000333 is not
# 1/3000: four digits must agree.
_DECIMAL_SHARE = 2e-4
_EXACT_SHARE = 1e-9
_DIGITS = 30


def _comparison() -> Callable[[str, str], bool]:
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, grader, parse, verify

    grader.sympy_numeric_eq = _also_by_ratio(grader.sympy_numeric_eq)

    # It warns that no time limit of its own is set, which is meant: its limit cannot interrupt one long C call.
    logging.disable(logging.WARNING)
    targets = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())

    def parsed(text: str) -> Any:
        return parse(f"\\boxed{{{text}}}", targets, parsing_timeout=None, raise_on_error=True)

    # Parsing is most of the work, and a gold answer comes once for every different response to its prompt.
    parsed_gold = lru_cache(maxsize=1024)(parsed)

    def equal(gold: str, answer: str) -> bool:
        expected, given = parsed_gold(gold), parsed(answer)
        try:
            return bool(verify(expected, given, timeout_seconds=None, raise_on_error=True))
        except Exception:
            # One of several readings could not be compared; if another one is equal, that counts.
            if verify(expected, given, timeout_seconds=None):
                return True
            raise

    return equal


def _also_by_ratio(numeric_equality: Callable[..., bool]) -> Callable[..., bool]:
    """math-verify's comparison of numbers, which it makes of every number in tuples, sets and matrices too, but false
    where the two have different magnitudes: its tolerances are absolute, by which all tiny numbers are equal."""
    from sympy import Basic, Float, Integer

    def equal(one: Any, other: Any, *args: Any, **kwargs: Any) -> bool:
        if not numeric_equality(one, other, *args, **kwargs):
            return False
        if not (isinstance(one, Basic) and isinstance(other, Basic)):
            return True  # matrices, whose elements come here one by one
        if one == other or all(_number_or_percentage(side, Integer) for side in (one, other)):
            return True
        decimal = one.has(Float) or other.has(Float)
        return _same_magnitude(one.doit(), other.doit(), _DECIMAL_SHARE if decimal else _EXACT_SHARE)

    return equal


def _number_or_percentage(value: Any, kind: type) -> bool:
    from math_verify.grader import is_atomic_or_pct_atomic

    return bool(is_atomic_or_pct_atomic(value, kind))


def _same_magnitude(one: Any, other: Any, share: float) -> bool:
    """Whether two expressions differ by at most a share of the larger one: polynomials in every coefficient, others
    with unknowns at two places of these."""
    from sympy import Poly, Rational
    from sympy.polys.polyerrors import PolynomialError

    unknowns = sorted(one.free_symbols | other.free_symbols, key=str)
    if not unknowns:
        return _numbers_agree(one, other, share)
    try:
        ours, theirs = [Poly(side, *unknowns).as_dict() for side in (one, other)]
    except PolynomialError:
        places = [
            {unknown: start + Rational(number, 5) for number, unknown in enumerate(unknowns)}
            for start in (Rational(13, 7), Rational(37, 11))
        ]
        return all(_numbers_agree(one.subs(place), other.subs(place), share) for place in places)
    none = Rational(0)
    return all(_numbers_agree(ours.get(term, none), theirs.get(term, none), share) for term in {**ours, **theirs})


def _numbers_agree(one: Any, other: Any, share: float) -> bool:
    sizes = [abs(side.evalf(_DIGITS)) for side in (one, other)]
    difference = abs((one - other).evalf(_DIGITS))
    if not all(size.is_comparable for size in (*sizes, difference)):
        return True  # no numbers: as math-verify has it
    return bool(difference <= share * max(sizes))
