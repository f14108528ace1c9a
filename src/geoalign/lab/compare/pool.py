"""Runs a comparison's runs, several at a time, and shows how far they are."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from geoalign.lab.compare.processes import WorkerProcess
from geoalign.lab.config.comparison_plan import PlannedRun
from geoalign.lab.progress import passing_progress
from geoalign.lab.store.comparison import ComparisonFolder
from geoalign.lab.store.logs import last_step
from geoalign.lab.terminal import Console, say

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
    """Runs every run, at most `workers` at a time, whatever fails; leaves no process; the errors by the name of the
    cell."""
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
                for process in [process for process in running if process.exit_code() is not None]:
                    planned = running.pop(process)
                    error = _conclude(folder, planned, process, keep_runs=keep_runs)
                    if error is not None:
                        failed[planned.cell.name] = error
                        say(console, f"{planned.cell.name} failed: {error}", "red")
                    done, took = len(runs) - len(waiting) - len(running), timedelta(seconds=round(process.seconds))
                    said = "failed" if error is not None else "finished"
                    say(console, f"{planned.cell.name} {said} after {took}. {done} of {len(runs)} runs are done.")
                begun = (
                    last_step(folder.run(run.cell).metrics) / shapes[run.key]["max_steps"] for run in running.values()
                )
                update(completed=len(runs) - len(waiting) - len(running) + sum(begun))
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
