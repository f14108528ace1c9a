"""The worker processes that train the runs of a comparison, several at a time, and their progress bars."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from geoalign.console.numbers import duration
from geoalign.console.terminal import Console, passing_progress, say
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.plan import PlannedRun
from geoalign.lab.runs.reading import last_step

_LOOK_SECONDS = 0.25


def run_all(
    folder: ComparisonFolder,
    runs: Sequence[PlannedRun],
    console: Console,
    *,
    output: Mapping[str, Any],
    shapes: Mapping[str, Mapping[str, int]],
    base_seed: int,
    workers: int,
    threads: int,
    keep_runs: bool,
) -> dict[str, str]:
    """Trains the runs, at most `workers` at a time, and goes on where one fails; no process is left when it ends.

    Args:
        output: the `output` section of the runs' settings.
        shapes: how many updates each run makes, and how many on each generation, by its key.
        base_seed: the seed of the base run.
        threads: of each process.

    Returns:
        The error of each run that failed, by the name of its cell.
    """
    waiting = deque(runs)
    running: dict[WorkerProcess, PlannedRun] = {}
    failed: dict[str, str] = {}
    try:
        with passing_progress(console, "Runs", len(runs)) as update:
            while waiting or running:
                while waiting and len(running) < workers:
                    planned = waiting.popleft()
                    job = _job(folder, planned, output, shapes[planned.key], base_seed)
                    running[WorkerProcess(job, log=folder.log(planned.cell), threads=threads)] = planned
                ended = [process for process in running if process.exit_code() is not None]
                for process in ended:
                    planned = running.pop(process)
                    error = _conclude(folder, planned, process, keep_runs=keep_runs)
                    name = planned.cell.name
                    state = "finished"
                    if error is not None:
                        failed[name] = error
                        state = "failed"
                        say(console, f"{name} failed: {error}", "red")
                    done = len(runs) - len(waiting) - len(running)
                    took = duration(process.seconds)
                    say(console, f"{name} {state} after {took}. {done} of {len(runs)} runs are done.")
                parts = [
                    last_step(folder.run(planned.cell).metrics) / shapes[planned.key]["max_steps"]
                    for planned in running.values()
                ]
                update(completed=len(runs) - len(waiting) - len(running) + sum(parts))
                time.sleep(_LOOK_SECONDS)
    finally:
        for process in running:
            process.stop()
    return failed


def _job(
    folder: ComparisonFolder, planned: PlannedRun, output: Mapping[str, Any], shape: Mapping[str, int], base_seed: int
) -> dict[str, Any]:
    """What the worker process of a run reads, as JSON (`worker.run_cell`)."""
    return {
        "kind": "run",
        "folder": str(folder.root),
        "cells": [asdict(cell) for cell in planned.cells],
        "settings": planned.settings,
        "warm_start_seed": planned.warm_start_seed,
        "shared": str(folder.warm_start(planned.warm_start_seed, base_seed)),
        "key": planned.key,
        "output": dict(output),
        "shape": dict(shape),
    }


def _conclude(folder: ComparisonFolder, planned: PlannedRun, process: WorkerProcess, *, keep_runs: bool) -> str | None:
    """Tidies up after a run that succeeded; records, keeps and returns the error of one that did not."""
    if process.exit_code() == 0 and folder.finished(planned):
        if not keep_runs:
            folder.discard(planned)
        return None
    error = process.error()
    folder.write_result(planned, {"status": "failed", "error": error})
    return error


# --- worker processes -------------------------------------------------------------------------------------------------

_WORKER = "geoalign.lab.compare.worker"


class WorkerProcess:
    """A process that does the one job on its standard input and appends its output to the log. It ends when `stop` is
    called or this process dies."""

    def __init__(self, job: Mapping[str, Any], *, log: Path, threads: int) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        self.started = time.monotonic()
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _WORKER],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                # A group of its own: Ctrl-C is for the comparison, which then stops its workers, helpers included.
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"},
            )
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it died at once; its exit code and log say why
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self.started

    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs. What it left running is ended with it."""
        code = self._process.poll()
        if code is not None:
            self._end_group()
        return code

    def stop(self) -> None:
        """Ends the process and all that it started."""
        self._end_group()
        self._process.wait()

    def error(self) -> str:
        """Why a process that has ended did not succeed: the signal, or the last line that it wrote."""
        code = self._process.returncode
        if code is not None and code < 0:
            return f"killed by signal {-code} ({signal.Signals(-code).name})"
        return last_line(self.log) or f"exit code {code}, nothing written"

    def _end_group(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def last_line(log: Path) -> str:
    """The last line of a log that is not blank; empty without any."""
    text = log.read_bytes().decode("utf-8", errors="replace") if log.is_file() else ""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
