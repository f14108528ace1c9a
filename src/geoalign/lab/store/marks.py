"""The mark of a complete folder: written into it last, it lists every file with size and SHA-256."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import geoalign
from geoalign.errors import RunFolderError
from geoalign.lab.store.digests import Digest, read_sealed, write_sealed
from geoalign.lab.store.files import sync_tree

MARK = "COMPLETE.json"


@dataclass(frozen=True)
class Mark:
    """What the mark of a folder says.

    Attributes:
        step: the update after which a checkpoint was written; 0 for other folders.
        files: digest of every file below the folder, by path.
        run: what the run's own files held at that moment (`geoalign.lab.store.run_records`).
    """

    step: int
    files: Mapping[str, Digest]
    run: Mapping[str, Any]


def mark_complete(folder: Path, *, step: int = 0, run: Mapping[str, Any] | None = None) -> None:
    """Brings every file of a folder to the disk, then writes its mark; the cost is one more reading of the folder."""
    sync_tree(folder)
    files = {
        path.relative_to(folder).as_posix(): Digest.of_file(path).plain()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path != folder / MARK
    }
    write_sealed(folder / MARK, {"step": step, "geoalign": geoalign.__version__, "run": run or {}, "files": files})


def read_mark(folder: Path) -> Mark:
    """The mark of a folder; its files are not looked at.

    Raises:
        RunFolderError: it is absent, unreadable, or not as it was written.
    """
    path = folder / MARK
    value = read_sealed(path)
    try:
        files = {str(name): Digest.of_plain(digest) for name, digest in value["files"].items()}
        return Mark(int(value["step"]), files, dict(value["run"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunFolderError(f"{path}: expected step, files and run, got {type(error).__name__}: {error}") from error


def files_fault(folder: Path, mark: Mark) -> str | None:
    """What is wrong with the first file of a folder that is not as its mark says; None where all are."""
    return next((fault for name in mark.files if (fault := mark.files[name].fault(folder / name))), None)
