"""Is anybody still writing here? What the lock file, the time of the last line and the summary say."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from geoalign.lab.store.files import LOCK

Held = Literal["held", "free", "unknown"]
State = Literal["absent", "waiting", "running", "stopped", "unknown", "finished", "removed"]
# struct flock on 64-bit Linux: type, whence, start, length, process.
_FLOCK = struct.Struct("@hhqqi4x")


@dataclass(frozen=True)
class Lock:
    """Whether a process holds a folder's lock, and its number where it is known."""

    held: Held
    process: int | None = None


@dataclass(frozen=True)
class Status:
    """The state of a run.

    Attributes:
        state: absent (no folder), waiting (nothing written yet), running (a process holds the lock), stopped (none
            does, and the run is not finished), unknown (no lock to be read), finished, removed (it was there).
        age: seconds since the last line came; None before the first.
        process: the number of the process that holds the lock, or held it last.
    """

    state: State
    age: float | None = None
    process: int | None = None


def read_lock(folder: Path) -> Lock:
    """Asks the kernel who holds the lock of a run folder, without taking it; elsewhere than on Linux it only says
    whether a process of the number in the file is alive."""
    path = folder / LOCK
    try:
        with path.open("rb") as file:
            text = file.read(32).strip()
            written = int(text) if text.isdigit() else None
            if sys.platform == "linux":
                asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(file.fileno(), fcntl.F_GETLK, asked))
                if kind == fcntl.F_UNLCK:
                    return Lock("free", written)
                return Lock("held", process if process > 0 else written)
    except OSError:
        return Lock("unknown")
    return Lock("unknown") if written is None else Lock("held" if _alive(written) else "free", written)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def run_status(folder: Path, *, started: bool, finished: bool, files: Iterable[Path]) -> Status:
    """The state of a run.

    Args:
        started: a line has come, or the run's settings are there.
        finished: its summary is there.
        files: what its lines go to.
    """
    age = _age(files)
    if finished:
        return Status("finished", age)
    if not folder.is_dir():
        return Status("removed" if started else "absent", age)
    lock = read_lock(folder)
    if lock.held == "held":
        return Status("running" if started else "waiting", age, lock.process)
    if not started:
        return Status("waiting", age)
    return Status("stopped" if lock.held == "free" else "unknown", age, lock.process)


def _age(files: Iterable[Path]) -> float | None:
    times = []
    for path in files:
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return max(0.0, time.time() - max(times)) if times else None
