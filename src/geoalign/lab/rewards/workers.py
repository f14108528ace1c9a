"""Processes that compare answers by math-verify, each with a time limit that holds whatever the answer is.

Such a process runs `main`: it reads one JSON object a line ({"gold": ..., "answer": ...}) and writes one a line
({"correct": true} or {"error": "..."}), after a first line {"ready": true}.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from queue import SimpleQueue
from typing import IO, Any

from geoalign.errors import GeoAlignError, MissingExtraError
from geoalign.lab.rewards.answers import values

# Importing sympy takes a second, on a machine at its limit many.
_START_SECONDS = 120.0
_START_ATTEMPTS = 3
# A worker that nobody can kill any more ends itself so long after the limit.
_GUARD_SECONDS = 10.0
# An answer such as 9^{9^{9^9}} asks for more memory than there is; then a MemoryError is better than a dead machine.
_MEMORY_BYTES = 4 * 2**30


class Verdict(Enum):
    """The outcome of one comparison."""

    CORRECT = "correct"
    WRONG = "wrong"
    TIMEOUT = "timeout"
    ERROR = "error"


class AnswerWorkers:
    """Up to `count` processes that run math-verify, started when first needed and replaced when killed.

    math-verify's own limit is an alarm in the main thread, which neither works in a thread nor interrupts one long call
    in C. Here a comparison that takes more than `timeout` seconds costs its process its life. The processes are started
    afresh, not forked: no state of torch, threads or devices is copied into them. POSIX only (it selects on pipes).
    """

    def __init__(self, *, count: int, timeout: float) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise MissingExtraError("verified answers need math-verify: pip install 'geoalign[trl]'")
        self._workers = [_Worker(timeout) for _ in range(count)]
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _end_all, self._workers, os.getpid())

    @property
    def started(self) -> int:
        """How many processes have been started."""
        return sum(worker.started for worker in self._workers)

    def compare(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """For each (gold, answer), whether they are equal as mathematics; in order, each within the time limit."""
        if not pairs:
            return []
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            idle.put(worker)

        def compared(pair: tuple[str, str]) -> Verdict:
            worker = idle.get()
            try:
                return worker.compare(*pair)
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
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self.started = 0

    def compare(self, gold: str, answer: str) -> Verdict:
        """Within the time limit, the start of a process not counted."""
        # Short against what a pipe holds (the caller bounds the answers), so writing does not wait.
        request = json.dumps({"gold": gold, "answer": answer}).encode("ascii") + b"\n"
        process = self._running()
        assert process.stdin is not None
        try:
            process.stdin.write(request)
        except BrokenPipeError:  # it died while idle
            self.end()
            process = self._running()
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.write(request)
        reply = _line(process, self._timeout)
        if not reply:
            self.end()
            return Verdict.TIMEOUT if reply is None else Verdict.ERROR
        said = json.loads(reply)
        return Verdict.ERROR if "correct" not in said else Verdict.CORRECT if said["correct"] else Verdict.WRONG

    def end(self) -> str:
        """Kills the process, if there is one, and returns the end of its error output."""
        process, errors = self._process, self._errors
        self._process = self._errors = None
        if process is None or errors is None:
            return ""
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        with errors:
            errors.seek(0)
            return " ".join(errors.read().decode("utf-8", errors="replace").split())[-500:]

    def _running(self) -> subprocess.Popen[bytes]:
        output = ""
        for _ in range(_START_ATTEMPTS):
            if self._process is not None:
                return self._process
            process = self._start()
            if _line(process, _START_SECONDS):
                return process
            output = self.end()
        raise GeoAlignError(f"verified answers: expected a process that runs math-verify, got {output or 'none'}")

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self._process = subprocess.Popen(
            # -P: a file in the working folder must not stand for a module of the library.
            [sys.executable, "-P", "-c", f"import {__name__} as it; it.main({self._timeout + _GUARD_SECONDS})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            bufsize=0,
        )
        self.started += 1
        return self._process


def _line(process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
    """The next line of a process; empty where it ends before, None where the time is up."""
    assert process.stdout is not None
    line, deadline = b"", time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return None
            if not (part := os.read(process.stdout.fileno(), 65536)):
                return b""
            line += part
    return line


def _end_all(workers: Sequence[_Worker], owner: int) -> None:
    # A forked child inherits these objects, but the processes are its parent's.
    if os.getpid() == owner:
        for worker in workers:
            worker.end()


def main(seconds: float) -> None:
    """Serves until its input ends. `seconds` is the guard: no line takes longer, even with no parent left to kill."""
    replies = os.fdopen(os.dup(1), "w", encoding="ascii")
    # What a library prints must not stand between the replies, nor fill a file that nobody reads.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    # An interrupt at the keyboard is the parent's affair, which ends this process by ending its input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _limit_memory()
    equal = _comparison()
    # The first comparison loads grammars and much of sympy; no answer's time limit should pay for that.
    equal("\\sqrt{x+4}", "\\frac{x}{2}+1.5")
    os.dup2(nowhere, 2)

    def say(message: dict[str, Any]) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    say({"ready": True})
    for line in sys.stdin:
        # The system ends this process after so many seconds, whatever Python is doing.
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            gold, answer = (json.loads(line)[name] for name in ("gold", "answer"))
            named = values(gold, answer)
            reply: dict[str, Any] = {"correct": equal(gold, answer) or (named is not None and equal(*named))}
        except Exception as error:  # whatever a parser makes of hostile text, no memory included; counted by the caller
            reply = {"error": f"{type(error).__name__}: {error}"[:500]}
        signal.setitimer(signal.ITIMER_REAL, 0)
        say(reply)


def _comparison() -> Callable[[str, str], bool]:
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

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


def _limit_memory() -> None:
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
