"""What files held when they were written: digests, sealed JSON, the marks of complete folders, checkpoints.

The mark of a complete folder is written into it last and lists every file with size and SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import geoalign
from geoalign.errors import RunFolderError
from geoalign.lab.store.files import sync_tree
from geoalign.lab.store.json_files import finite, read_json, write_json

MARK = "COMPLETE.json"
CHECKPOINT = "checkpoint-"
_TRAINER_STATE = "trainer_state.json"
_PIECE = 1 << 20
# The key under which a sealed JSON object keeps the digest of its other keys.
SEAL = "sha256"


@dataclass(frozen=True)
class Digest:
    """Size in bytes and SHA-256 (hexadecimal) of a file, or of its beginning."""

    size: int
    sha256: str

    @classmethod
    def of(cls, data: bytes) -> Digest:
        """The digest of data in memory."""
        return cls(len(data), hashlib.sha256(data).hexdigest())

    @classmethod
    def of_file(cls, path: Path, first: int | None = None) -> Digest:
        """The digest of a file, or of its first bytes; that of nothing where it is absent."""
        if not path.is_file():
            return NOTHING
        seen, left, digest = 0, first, hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(_PIECE if left is None else min(left, _PIECE)):
                digest.update(piece)
                seen += len(piece)
                left = None if left is None else left - len(piece)
        return cls(seen, digest.hexdigest())

    @classmethod
    def of_plain(cls, value: Any) -> Digest:
        """The digest that `plain` made into JSON.

        Raises:
            ValueError: it is none.
        """
        if not isinstance(value, Mapping) or {*value} != {"bytes", "sha256"}:
            raise ValueError(f"expected bytes and sha256, got {value!r}")
        size, sha256 = value["bytes"], value["sha256"]
        if not isinstance(size, int) or isinstance(size, bool) or not isinstance(sha256, str):
            raise ValueError(f"expected bytes and sha256, got {value!r}")
        return cls(size, sha256)

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"bytes": self.size, "sha256": self.sha256}

    def fault(self, path: Path, *, begins: bool = False) -> str | None:
        """What is wrong with a file that held this, as "path: expected ..., got ..."; None where it still does.

        Args:
            begins: the file may have grown since: only its beginning counts.
        """
        try:
            if not path.is_file():
                if begins and not self.size and not path.exists():
                    return None
                return f"{path}: expected a file of {self.size:,} bytes, got {'a folder' if path.is_dir() else 'none'}"
            size = path.stat().st_size
            if size < self.size or (size > self.size and not begins):
                return f"{path}: expected {'at least ' * begins}{self.size:,} bytes, got {size:,}"
            actual = Digest.of_file(path, self.size)
        except OSError as error:
            return f"{path}: expected a readable file, got {error}"
        if actual != self:
            which = "its first " if begins and size > self.size else ""
            return (
                f"{path}: expected {which}{self.size:,} bytes as they were written (SHA-256 {self.sha256[:12]}...), "
                f"got others ({actual.sha256[:12]}...)"
            )
        return None


NOTHING = Digest.of(b"")


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with the digest of its own content, so that a change in it shows; NaN becomes null."""
    plain = finite(value)
    return {**plain, SEAL: _seal(plain)}


def unsealed(value: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """What was given to `sealed`; `path` is where it was read.

    Raises:
        RunFolderError: it has no digest, or is not as it was written.
    """
    content = {name: of for name, of in value.items() if name != SEAL}
    seal = value.get(SEAL)
    if seal is None:
        raise RunFolderError(f"{path}: expected a digest of its content ({SEAL}), got none")
    if seal != _seal(content):
        raise RunFolderError(f"{path}: expected its content as it was written (SHA-256 {seal!s:.12}...), got another")
    return content


def write_sealed(path: Path, value: Mapping[str, Any]) -> None:
    """Writes a sealed JSON file atomically."""
    write_json(path, sealed(value))


def read_sealed(path: Path) -> dict[str, Any]:
    """Reads what `write_sealed` wrote.

    Raises:
        RunFolderError: unreadable, without a digest, or not as it was written.
    """
    return unsealed(read_json(path), path)


def _seal(value: Mapping[str, Any]) -> str:
    return Digest.of(json.dumps(value, sort_keys=True, ensure_ascii=True).encode("ascii")).sha256


@dataclass(frozen=True)
class Mark:
    """What the mark of a folder says.

    Attributes:
        step: the update after which a checkpoint was written; 0 for other folders.
        files: digest of every file below the folder, by path.
        run: what the run's own files held at that moment (`geoalign.lab.store.records`).
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


def checkpoint_path(folder: Path, step: int) -> Path:
    """Where a stage's checkpoint after so many updates lies."""
    return folder / f"{CHECKPOINT}{step}"


def checkpoint_step(checkpoint: Path) -> int:
    """The number of updates after which a checkpoint was written."""
    return int(checkpoint.name.removeprefix(CHECKPOINT))


def is_last(checkpoint: Path) -> bool:
    """True if a checkpoint was written after a stage's last update.

    transformers makes one update more when it resumes from such a checkpoint: there is nothing to resume.

    Raises:
        RunFolderError: its `trainer_state.json` is unreadable.
    """
    state = read_json(checkpoint / _TRAINER_STATE)
    return bool(state["global_step"] >= state["max_steps"])


def complete_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints of a stage, oldest first."""
    return [path for path in checkpoint_folders(folder) if (path / MARK).is_file()]


def latest_complete(folder: Path) -> Path | None:
    """The newest complete checkpoint of a stage; None where there is none. Incomplete ones are removed."""
    for path in checkpoint_folders(folder):
        if not (path / MARK).is_file():
            remove_checkpoint(path)
    complete = complete_checkpoints(folder)
    return complete[-1] if complete else None


def prune(folder: Path, keep: int) -> None:
    """Removes all but the newest `keep` complete checkpoints; the mark goes first, so half of one never counts."""
    for path in complete_checkpoints(folder)[:-keep]:
        remove_checkpoint(path)


def remove_checkpoint(path: Path) -> None:
    """Removes a checkpoint; the mark goes first, so half of one never counts."""
    if (path / MARK).is_file():
        (path / MARK).unlink()
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path)


def checkpoint_folders(folder: Path) -> list[Path]:
    """The folders of a stage's checkpoints, complete or not, oldest first."""
    return sorted((path for path in checkpoint_paths(folder) if path.is_dir()), key=checkpoint_step)


def checkpoint_paths(folder: Path) -> list[Path]:
    """Whatever lies below a folder under the name of a checkpoint."""
    return [path for path in folder.glob(f"{CHECKPOINT}*") if is_checkpoint(path)]


def is_checkpoint(path: Path) -> bool:
    """Whether a path has the name of a checkpoint."""
    step = path.name.removeprefix(CHECKPOINT)
    return step != path.name and step.isdigit()
