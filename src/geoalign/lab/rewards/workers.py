"""Processes that compare answers, each with a time limit that holds whatever the answer is."""

from __future__ import annotations

import importlib.util
import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import IO

from geoalign.errors import GeoAlignError, MissingExtraError

# Importing sympy takes a second, on a machine at its limit many.
_START_SECONDS = 120.0
_START_ATTEMPTS = 3
# A worker that nobody can kill any more ends itself so long after the limit.
_GUARD_SECONDS = 10.0


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

    Raises:
        MissingExtraError: math-verify is not installed.
    """

    def __init__(self, *, count: int, timeout: float) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise MissingExtraError("verified answers need math-verify: pip install 'geoalign[trl]'")
        self._timeout = timeout
        self._slots: list[_Worker | None] = [None] * count
        self._lock = threading.Lock()
        self._failed_starts = 0
        self.started = 0
        self._finalizer = weakref.finalize(self, _end_all, self._slots, os.getpid())

    def compare(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """For each (gold, answer), whether they are equal as mathematics; in order, each within the time limit.

        Raises:
            GeoAlignError: no process can be started; the message has its output.
        """
        with self._lock:
            return self._compare(pairs)

    def close(self) -> None:
        """Ends every process; a later `compare` starts new ones."""
        with self._lock:
            _end_all(self._slots, os.getpid())

    def _compare(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        verdicts: list[Verdict | None] = [None] * len(pairs)
        waiting = deque(range(len(pairs)))
        try:
            while waiting or any(worker is not None and worker.job is not None for worker in self._slots):
                self._hand_out(waiting, pairs)
                for worker in self._reporting():
                    job, verdict = worker.job, self._collect(worker)
                    if job is not None and verdict is not None:
                        verdicts[job] = verdict
        except BaseException:
            # Half-read replies must not be taken for those of the next call.
            _end_all(self._slots, os.getpid())
            raise
        return [verdict for verdict in verdicts if verdict is not None]

    def _hand_out(self, waiting: deque[int], pairs: Sequence[tuple[str, str]]) -> None:
        on_the_way = sum(worker is not None and not worker.ready for worker in self._slots)
        for slot, worker in enumerate(self._slots):
            if worker is None and len(waiting) > on_the_way:
                self._slots[slot] = _Worker(self._timeout)
                self.started += 1
                on_the_way += 1
            elif worker is not None and worker.ready and worker.job is None and waiting:
                job = waiting[0]
                if worker.send(job, *pairs[job], deadline=time.monotonic() + self._timeout):
                    waiting.popleft()
                else:
                    # It died while idle; the comparison waits for another one.
                    worker.end()
                    self._slots[slot] = None

    def _reporting(self) -> list[_Worker]:
        """The workers with something to read, or past their deadline; waits for the first of them."""
        busy = [worker for worker in self._slots if worker is not None and (worker.job is not None or not worker.ready)]
        if not busy:
            return []
        nearest = min(worker.deadline for worker in busy)
        with selectors.DefaultSelector() as selector:
            for worker in busy:
                selector.register(worker.replies, selectors.EVENT_READ)
            readable = {key.fileobj for key, _ in selector.select(max(0.0, nearest - time.monotonic()))}
        now = time.monotonic()
        return [worker for worker in busy if worker.replies in readable or now >= worker.deadline]

    def _collect(self, worker: _Worker) -> Verdict | None:
        """The worker's verdict on its job; None while there is none. A worker that is dead or late is removed."""
        reply = worker.read()
        if reply is not None:
            worker.job = None
            if "ready" in reply:
                worker.ready = True
                self._failed_starts = 0
                return None
            return _verdict(reply)
        if worker.alive and time.monotonic() < worker.deadline:
            return None
        late = worker.alive
        output = worker.end()
        self._slots[self._slots.index(worker)] = None
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts >= _START_ATTEMPTS:
                raise GeoAlignError(
                    f"verified answers: expected a process that runs math-verify, got {output or 'none'}"
                )
            return None
        return Verdict.TIMEOUT if late else Verdict.ERROR


# Not a multiprocessing pool (pebble): its workers run a script without a main guard again, and outlive a killed parent.
class _Worker:
    """One process: what it works on, until when, and its pipes."""

    def __init__(self, timeout: float) -> None:
        path = [entry or os.getcwd() for entry in sys.path]
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self._process = subprocess.Popen(
            # -P: a file in the working folder must not stand for a module of the library.
            [sys.executable, "-P", "-m", "geoalign.lab.rewards.worker", str(timeout + _GUARD_SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"},
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests: IO[bytes] = self._process.stdin
        self.replies: IO[bytes] = self._process.stdout
        self._unread = b""
        self.ready = False
        self.alive = True
        self.job: int | None = None
        self.deadline = time.monotonic() + _START_SECONDS

    def send(self, job: int, gold: str, answer: str, *, deadline: float) -> bool:
        """Hands a comparison over; False where the process is no more."""
        try:
            # Short against what a pipe holds (the caller bounds the answers), so this does not wait.
            self._requests.write(json.dumps({"gold": gold, "answer": answer}).encode("ascii") + b"\n")
        except BrokenPipeError:
            return False
        self.job, self.deadline = job, deadline
        return True

    def read(self) -> dict[str, object] | None:
        """One reply, if a whole one is there; does not wait (the caller has selected on the pipe)."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.replies, selectors.EVENT_READ)
            if selector.select(0):
                content = os.read(self.replies.fileno(), 65536)
                self.alive = bool(content)
                self._unread += content
        line, newline, rest = self._unread.partition(b"\n")
        if not newline:
            return None
        self._unread = rest
        reply: dict[str, object] = json.loads(line)
        return reply

    def end(self) -> str:
        """Kills the process and returns the end of its error output."""
        self._process.kill()
        self._process.wait()
        self._requests.close()
        self.replies.close()
        self._errors.seek(0)
        output = self._errors.read().decode("utf-8", errors="replace")
        self._errors.close()
        return " ".join(output.split())[-500:]


def _verdict(reply: dict[str, object]) -> Verdict:
    if "correct" not in reply:
        return Verdict.ERROR
    return Verdict.CORRECT if reply["correct"] is True else Verdict.WRONG


def _end_all(slots: list[_Worker | None], owner: int) -> None:
    # A forked child inherits this object, but the processes are its parent's.
    if os.getpid() != owner:
        return
    for slot, worker in enumerate(slots):
        if worker is not None:
            worker.end()
            slots[slot] = None
