"""Runs a comparison's runs, several at a time, and shows how far they are."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from geoalign.lab.compare.processes import WorkerProcess
from geoalign.lab.compare.progress import Board
from geoalign.lab.config.comparison_plan import PlannedRun
from geoalign.lab.store.comparison import ComparisonFolder

_LOOK_SECONDS = 0.25


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

    However this call ends, no process is left.

    Args:
        base_seed: seed of the base run, whose warm start lies in the folder's `shared`.

    Returns:
        The error of each failed run by the name of its cell.
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
