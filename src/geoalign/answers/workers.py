"""Processes that compare answers by math-verify, each with a time limit that holds whatever the answer is."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue

from geoalign.errors import GeoAlignError, MissingExtraError

# Importing sympy takes a second, on a machine at its limit many.
_START_SECONDS = 120.0
_REMEMBERED = 65536


class AnswerWorkers:
    """Up to `count` processes that run math-verify, started when first needed and replaced when killed.

    math-verify's own limit is an alarm in the main thread, which neither works in a thread nor interrupts one long call
    in C. Here a comparison that takes more than `timeout` seconds costs its process its life. The processes are started
    afresh, not forked: no state of torch, threads or devices is copied into them. POSIX only (it passes descriptors).

    Attributes:
        pairs_asked: how many comparisons took a process; what came of them is remembered.
    """

    def __init__(self, *, count: int, timeout: float) -> None:
        if importlib.util.find_spec("math_verify") is None:
            raise MissingExtraError(
                "verified answers need math-verify: pip install 'geoalign[trl]', or 'math-verify<0.10'"
            )
        self.pairs_asked = 0
        self._known: dict[tuple[str, str], str] = {}
        self._workers = [_Worker(timeout) for _ in range(count)]
        self._lock = threading.Lock()
        self._finalizer = weakref.finalize(self, _end_all, self._workers, os.getpid())

    def compare(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        """ "correct", "wrong", "timeouts" or "errors" (math-verify failed) for each (gold, answer), in order."""
        with self._lock:
            new = [pair for pair in dict.fromkeys(pairs) if pair not in self._known]
            outcomes = dict(zip(new, self._ask(new), strict=True))
            self.pairs_asked += len(new)
            found = [self._known.get(pair) or outcomes[pair] for pair in pairs]
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            self._known |= {pair: outcome for pair, outcome in outcomes.items() if outcome in ("correct", "wrong")}
            return found

    def close(self) -> None:
        """Ends every process; a later `compare` starts new ones."""
        with self._lock:
            _end_all(self._workers, os.getpid())

    def _ask(self, pairs: Sequence[tuple[str, str]]) -> list[str]:
        """The outcomes of the pairs; each pair goes to the next idle process."""
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

        with ThreadPoolExecutor(min(len(self._workers), len(pairs))) as threads:
            try:
                return list(threads.map(compared, pairs))
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                _end_all(self._workers, os.getpid())
                raise


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
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._connection is not None:
            self._connection.close()
        self._process = None
        self._connection = None

    def _reply(self, seconds: float) -> str:
        """The reply of the process; "timeouts" if none came in time, "" if the process has ended."""
        assert self._connection is not None
        try:
            return str(self._connection.recv()) if self._connection.poll(seconds) else "timeouts"
        except (EOFError, OSError):
            return ""

    def _running(self) -> Connection:
        """The connection to the process, which is started unless it runs."""
        if self._connection is not None and self._owner == os.getpid():
            return self._connection
        connection = self._start()
        said = self._reply(_START_SECONDS)
        if said != "ready":
            self.end()
            raise GeoAlignError(f"verified answers: expected a process that runs math-verify, got {said or 'none'}")
        return connection

    def _start(self) -> Connection:
        """Starts the process, with a new connection to it, which is returned."""
        self._owner = os.getpid()
        self._connection, theirs = Pipe()
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        with theirs:
            descriptor = theirs.fileno()
            code = f"from geoalign.answers.math_verify_process import main; main({descriptor}, {self._timeout})"
            self._process = subprocess.Popen(
                # -P: a file in the working folder must not stand for a module of the library.
                [sys.executable, "-P", "-c", code],
                pass_fds=[descriptor],
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
