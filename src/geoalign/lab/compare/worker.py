"""The process of one run of a comparison: `python -m geoalign.lab.compare.worker`, its job on standard input.

The pipe stays open for as long as the parent lives. When it closes, this process and all that it started end at once:
a run folder survives that at any moment.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from geoalign.console.command_line import error_line
from geoalign.console.terminal import Console, harmless_messages, say, say_lines
from geoalign.errors import RunFolderError
from geoalign.files.durable import locked
from geoalign.files.json_files import append_line, read_lines, write_json
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.plan import CellKey, PlannedRun
from geoalign.secrets import masked
from geoalign.text import LONGEST_ERROR, one_line

# Seconds to wait for a killed worker to release its lock.
_LOCK_SECONDS = 30.0


def main() -> int:
    """Reads the job and carries it out. Returns 0; 2 for an error of this package; 1 for a bug. The last line says
    why."""
    job = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        with harmless_messages():
            if job["kind"] == "prepare":
                prepare_shared(job)
            else:
                run_cell(job)
    except Exception as error:  # the boundary of the process: the parent reads the last line
        console = Console(no_color=True)
        line = error_line(error)
        say_lines(console, masked(traceback.format_exc()))
        say(console, line or one_line(masked(f"{type(error).__name__}: {error}"), LONGEST_ERROR))
        return 1 if line is None else 2
    return 0


def _end_with_parent() -> None:
    # The descriptor itself: a buffered reader that waits in a thread would hold its lock when the process ends.
    while os.read(0, 1):
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def prepare_shared(job: dict[str, Any]) -> None:
    """Checks the settings of every run, writes what they come to, then makes the warm starts that the runs share."""
    from geoalign.lab.compare.checks import checked_shapes
    from geoalign.lab.train.read_settings import parse_run_config
    from geoalign.lab.train.train import prepare

    write_json(Path(job["checked"]), checked_shapes(job["runs"]))
    for start in job["warm_starts"]:
        prepare(parse_run_config(start["settings"]), Path(start["folder"]), console=Console(no_color=True))


def run_cell(job: dict[str, Any]) -> None:
    """Runs or resumes one run, and writes its result."""
    from geoalign.lab.compare.results import result_of
    from geoalign.lab.train.read_settings import parse_run_config
    from geoalign.lab.train.train import train

    folder = ComparisonFolder(Path(job["folder"]))
    cells = tuple(CellKey(**cell) for cell in job["cells"])
    planned = PlannedRun(cells, job["settings"], job["warm_start_seed"], job["key"])
    run = folder.run(planned.cell)
    attempts = folder.attempts(planned.cell)
    attempts.parent.mkdir(parents=True, exist_ok=True)
    wait_until_free(run.root)
    append_line(attempts, {"started": time.time()})
    started = time.monotonic()
    config = parse_run_config({**planned.settings, "output": job["output"]})
    train(config, run.root, resume=True, shared=Path(job["shared"]), report=False, console=Console(no_color=True))
    append_line(attempts, {"seconds": time.monotonic() - started, "peak_memory_bytes": peak_memory()})
    result = {
        "status": "finished",
        "error": None,
        **result_of(run),
        **job["shape"],
        **time_and_memory(read_lines(attempts)),
    }
    folder.write_result(planned, result)


def time_and_memory(attempts: list[dict[str, Any]]) -> dict[str, Any]:
    """Seconds of a run over all its starts (None where one was killed: nobody knows when), and its peak memory."""
    ends = [line for line in attempts if "seconds" in line]
    starts = sum("started" in line for line in attempts)
    seconds = sum(line["seconds"] for line in ends) if len(ends) == starts else None
    peak = max((line["peak_memory_bytes"] for line in ends), default=None)
    return {"seconds": seconds, "peak_memory_bytes": peak}


def peak_memory() -> int:
    """The peak memory of this process in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def wait_until_free(root: Path, seconds: float = _LOCK_SECONDS) -> None:
    """Waits until no other process holds the lock of a run folder; raises RunFolderError after so many seconds."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with locked(root):
                return
        except RunFolderError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
