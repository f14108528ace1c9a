"""One process at a time in a run folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from geoalign.errors import RunFolderError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a run folder; the kernel lets go of a dead process's lock, so none is ever stale.

    A POSIX record lock belongs to the process, not to the open file: worker processes that outlive a killed run do not
    keep it.

    Raises:
        RunFolderError: another process holds the lock; the message has its number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    with path.open("a+", encoding="ascii") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise RunFolderError(f"{folder}: in use by another process (number {holder})") from error
        file.seek(0)
        file.truncate()
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
