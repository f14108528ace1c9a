"""Runs a comparison's runs, several at a time, and shows how far they are."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from geoalign.lab.compare.processes import WorkerProcess
from geoalign.lab.config.compare import Place, PlannedRun
from geoalign.lab.store.comparison import ComparisonFolder
from geoalign.lab.store.run import last_step
from geoalign.lab.terminal import Console

_LOOK_SECONDS = 0.25


class Board:
    """Counts finished, failed and waiting runs, `total` in this call and `before` it, in one line that is drawn until
    the end of the block."""

    def __init__(self, console: Console, folder: ComparisonFolder, *, total: int, before: int) -> None:
        self.console = console
        self.folder = folder
        self.total = total
        self.before = before
        self.finished = 0
        self.failed = 0
        self._started = time.monotonic()
        self._running: dict[Place, tuple[WorkerProcess, int]] = {}
        self._status = console.status("")

    def __enter__(self) -> Board:
        self._status.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._status.stop()

    def starts(self, cell: Place, process: WorkerProcess, steps: int) -> None:
        """A run has begun."""
        self._running[cell] = (process, steps)

    def ends(self, cell: Place, error: str | None) -> None:
        """A run has ended, well or with an error."""
        process, _ = self._running.pop(cell)
        if error is None:
            self.finished += 1
        else:
            self.failed += 1
            self.console.print(f"{cell.name} failed: {error}", style="red", markup=False, highlight=False)
        done = "failed" if error is not None else "finished"
        line = f"{cell.name} {done} after {_clock(process.seconds)}. {self.headline()}"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def refresh(self) -> None:
        """Draws the line anew."""
        self._status.update(self.headline())

    def headline(self) -> str:
        """Counts, time gone by, time left."""
        left = self.total - self.finished - self.failed - len(self._running)
        parts = [f"{self.before + self.finished} of {self.before + self.total} runs finished"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        parts += [f"{len(self._running)} running", f"{left} waiting", f"{_clock(self._elapsed())} gone by"]
        remaining = self.remaining()
        if remaining is not None:
            parts.append(f"about {_clock(remaining)} left")
        return ", ".join(parts)

    def remaining(self) -> float | None:
        """Seconds left if the rest goes as what is done; None while nothing is."""
        begun = [last_step(self.folder.run(cell).metrics) / steps for cell, (_, steps) in self._running.items()]
        done = self.finished + self.failed + sum(begun)
        return self._elapsed() * (self.total - done) / done if done else None

    def _elapsed(self) -> float:
        return time.monotonic() - self._started


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def run_all(
    folder: ComparisonFolder,
    runs: Sequence[PlannedRun],
    board: Board,
    *,
    output: Mapping[str, Any],
    shapes: Mapping[str, Mapping[str, int]],
    base_seed: int,
    workers: int,
    threads: int,
    keep_runs: bool,
) -> dict[str, str]:
    """Runs every run, at most `workers` at a time, in order; a failure stops none of the others.

    However this call ends, no process is left. Returns the error of each failed run by the name of its cell.
    """
    waiting = deque(runs)
    running: dict[WorkerProcess, PlannedRun] = {}
    failed: dict[str, str] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                planned = waiting.popleft()
                process = WorkerProcess(
                    _job(folder, planned, output, shapes[planned.key], base_seed),
                    log=folder.log(planned.cell),
                    threads=threads,
                )
                running[process] = planned
                board.starts(planned.cell, process, shapes[planned.key]["max_steps"])
            for process in [process for process in running if process.exit_code() is not None]:
                planned = running.pop(process)
                error = _conclude(folder, planned, process, keep_runs=keep_runs)
                if error is not None:
                    failed[planned.cell.name] = error
                board.ends(planned.cell, error)
            board.refresh()
            time.sleep(_LOOK_SECONDS)
    finally:
        for process in running:
            process.stop()
    return failed


def _job(
    folder: ComparisonFolder,
    planned: PlannedRun,
    output: Mapping[str, Any],
    shape: Mapping[str, int],
    base_seed: int,
) -> dict[str, Any]:
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
    curator = planned.settings["curator"]
    folder.write_result(
        planned,
        {
            "status": "failed",
            "error": error,
            "curator": curator["type"],
            "settings": {name: value for name, value in curator.items() if name != "type"},
        },
    )
    return error
