"""A growing file of JSON lines, read piece by piece: only what is new, whole lines only."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import IO, Any

from geoalign.lab.store.json_files import parsed_line, present
from geoalign.lab.store.values import whole

_PIECE = 1 << 20
# A line of metrics has a few kilobytes; what never ends is not kept in memory.
_LONGEST_LINE = 1 << 20
_TAIL_BYTES = 16384


class GrowingLines:
    """The JSON objects of a file that another process appends to.

    A last line without its line feed waits for the rest. A file that became shorter, or was replaced by another that
    does not begin with what was read (a resumed run cuts its metrics back), is read from its beginning.

    Attributes:
        unreadable: whole lines that were no JSON object, or longer than 1 MiB, and are left out.
        restarted: reading began anew: what came before no longer counts. It stays True until it is set back.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unreadable = 0
        self.restarted = False
        self._file: int | None = None
        self._offset = 0
        self._rest = b""
        self._too_long = False
        self._read = hashlib.sha256()

    def read(self) -> list[dict[str, Any]]:
        """The objects that were completed since the last call; none where there is no file.

        Raises:
            RunFolderError: something else than a file has the name.
        """
        present(self.path)
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            self._forget()
            return []
        values: list[dict[str, Any]] = []
        with file:
            seen = os.fstat(file.fileno())
            if seen.st_ino != self._file or seen.st_size < self._offset:
                if not self._begins_as_before(file):
                    self._forget()
                self._file = seen.st_ino
            file.seek(self._offset)
            while piece := file.read(_PIECE):
                self._offset += len(piece)
                self._read.update(piece)
                values += self._completed(piece)
        return values

    def _begins_as_before(self, file: IO[bytes]) -> bool:
        """Whether a file that was written anew has lost nothing: before its last evaluation a run does that, too."""
        digest, left = hashlib.sha256(), self._offset
        while left and (piece := file.read(min(_PIECE, left))):
            digest.update(piece)
            left -= len(piece)
        return not left and digest.digest() == self._read.digest()

    def _forget(self) -> None:
        self.restarted |= self._file is not None
        self._file, self._offset, self._rest, self._too_long, self.unreadable = None, 0, b"", False, 0
        self._read = hashlib.sha256()

    def _completed(self, piece: bytes) -> list[dict[str, Any]]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if lines and self._too_long:
            del lines[0]  # the end of the line that was too long
            self._too_long = False
        if len(self._rest) > _LONGEST_LINE:
            self.unreadable += not self._too_long
            self._rest, self._too_long = b"", True
        parsed = [self._parsed(line) for line in lines if line.strip()]
        return [value for value in parsed if value is not None]

    def _parsed(self, line: bytes) -> dict[str, Any] | None:
        try:
            return parsed_line(line)
        except ValueError:
            self.unreadable += 1
            return None


def last_step(metrics: Path, stage: str = "rl") -> int:
    """The step of the last whole line of a `metrics.jsonl` if it is of that stage, otherwise 0."""
    if not metrics.is_file():
        return 0
    with metrics.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        lines = file.read().rpartition(b"\n")[0].split(b"\n")
    try:
        line = parsed_line(lines[-1])
    except ValueError:  # none, or one longer than the tail
        return 0
    return whole(line.get("step")) or 0 if line.get("stage") == stage else 0
