"""One process at a time in a run folder."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from geoalign.errors import RunFolderError


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a run folder; the kernel lets go of a dead process's lock, so none is ever stale.

    A POSIX record lock belongs to the process, not to the open file: worker processes that outlive a killed run do not
    keep it.

    Raises:
        RunFolderError: another process holds the lock (the message has its number), or `.lock` is a link, something
            else than a plain file, or cannot be opened.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _opened(folder / ".lock") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = file.read(32).strip() or "unknown"
            raise RunFolderError(f"{folder}: in use by another process (number {holder})") from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def _opened(path: Path) -> IO[str]:
    """The lock file, made where it is absent. A link is not followed: what it points to would be overwritten."""
    if path.is_symlink():
        raise RunFolderError(f"{path}: expected a plain file, got a symbolic link to {os.readlink(path)}: remove it")
    try:
        # Without waiting: a pipe under this name would keep the call until somebody reads from it.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise RunFolderError(f"{path}: expected a file that can be locked, got {error}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RunFolderError(f"{path}: expected a plain file, got a pipe or a device: remove it")
    return os.fdopen(descriptor, "r+", encoding="ascii", errors="replace")
