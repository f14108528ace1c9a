"""Worker processes as the comparison sees them: start, look, stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

_WORKER = "geoalign.lab.compare.worker"


class WorkerProcess:
    """A process that does the one job on its standard input, its words appended to the log; it ends when `stop` is
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
    def number(self) -> int:
        return self._process.pid

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs. What it left running is ended with it."""
        code = self._process.poll()
        if code is not None:
            self._end_group()
        return code

    def stop(self) -> None:
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
    text = log.read_bytes().decode("utf-8", errors="replace") if log.is_file() else ""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
