"""What a file held when it was written: its size and SHA-256, to tell later whether it still does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.lab.store.files import finite, read_json, write_json

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
        seen, left, found = 0, first, hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(_PIECE if left is None else min(left, _PIECE)):
                found.update(piece)
                seen += len(piece)
                left = None if left is None else left - len(piece)
        return cls(seen, found.hexdigest())

    @classmethod
    def of_plain(cls, value: Any) -> Digest:
        """The digest that `plain` made into JSON.

        Raises:
            ValueError: it is none.
        """
        if not isinstance(value, Mapping) or {*value} != {"bytes", "sha256"}:
            raise ValueError(f"expected bytes and sha256, got {value!r}")
        size, found = value["bytes"], value["sha256"]
        if not isinstance(size, int) or isinstance(size, bool) or not isinstance(found, str):
            raise ValueError(f"expected bytes and sha256, got {value!r}")
        return cls(size, found)

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
            found = Digest.of_file(path, self.size)
        except OSError as error:
            return f"{path}: expected a readable file, got {error}"
        if found != self:
            which = "its first " if begins and size > self.size else ""
            return (
                f"{path}: expected {which}{self.size:,} bytes as they were written (SHA-256 {self.sha256[:12]}...), "
                f"got others ({found.sha256[:12]}...)"
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
