"""Durable files: written under a temporary name and renamed, lines appended whole, so that a kill leaves them readable.

One process at a time writes in a folder: `locked`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from geoalign.errors import RunFolderError

# The name of a folder's lock, and the ending of a temporary name.
LOCK, HALF_WRITTEN = ".lock", ".tmp"


def temporary_path(path: Path) -> Path:
    """The temporary name under which a file or folder is written before it is renamed."""
    return path.with_name(path.name + HALF_WRITTEN)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes a file to the disk under a temporary name, then renames it: a reader sees the old or the new, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = temporary_path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    with half.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)
    sync_folder(path.parent)


def append(path: Path, text: str) -> None:
    """Appends to a file in one write, to the disk."""
    with path.open("ab") as file:
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Brings a folder's entries to the disk, so that a rename survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_folder(written: Path, path: Path) -> None:
    """Renames a folder that is completely written, on the disk too; an older one at `path` is removed."""
    sync_tree(written)
    if path.exists():
        shutil.rmtree(path)
    written.replace(path)
    sync_folder(path.parent)


def remove_folder(path: Path) -> None:
    """Removes a folder; its temporary name comes first, so that half of one never stands under its own.

    What a kill leaves under that name is removed by the next call, or with all other files of such names.
    """
    half = temporary_path(path)
    if half.exists():
        shutil.rmtree(half)
    if path.exists():
        path.replace(half)
        sync_folder(path.parent)
        shutil.rmtree(half)


def sync_tree(folder: Path) -> None:
    """Brings every file below a folder to the disk."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    sync_folder(folder)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the lock of a run folder; the kernel releases a dead process's lock, so none is ever stale.

    A POSIX record lock belongs to the process, not to the open file: worker processes that outlive a killed run do not
    keep it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+", encoding="ascii", errors="replace") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            holder = file.read(32).strip() or "unknown"
            raise RunFolderError(f"{folder}: in use by another process (number {holder})") from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
