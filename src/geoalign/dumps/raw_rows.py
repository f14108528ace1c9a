"""The rows of a file as they stand there, and the bytes that they are read from, within limits of size."""

from __future__ import annotations

import codecs
import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader, RawIOBase
from pathlib import Path
from typing import Any

from geoalign.text import one_line

MEGABYTE = 2**20
# The longest row of JSON. A row of 64 responses of 32,000 tokens has 8 MB; parsed, a row can take 30 times as much.
LONGEST_ROW = 16 * MEGABYTE
# What may be unpacked of a packed file: so much of any, and so many times its size of a large one. Text packs 3 to 20
# times smaller; gzip packs zeros 1,000 times.
UNPACKED_ALWAYS = 64 * MEGABYTE
UNPACKED_TIMES = 200
# The first bytes of packed files.
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
# The end of a line: a line feed, or a carriage return with the character behind it.
_LINE_END = re.compile(rb"\n|\r.", re.DOTALL)
# The errors of a file that cannot be read or unpacked.
UNREADABLE = (OSError, EOFError, zlib.error)


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row of a file: `number` counts rows from 0, `line` counts lines (rows in parquet and arrays) from 1.

    `value` is None where the row cannot be read; `problem` then says why. With `rest_lost` nothing behind it can be
    read.
    """

    number: int
    line: int
    value: dict[str, Any] | None
    problem: str | None = None
    rest_lost: bool = False


class CsvCell(str):
    """A cell of a CSV file. CSV has no types: the role that the cell fills decides whether it is a text or a number."""

    __slots__ = ()


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a file without byte order marks (files are joined by `cat`).

    They are bytes, for a text file would also be split at other line ends, which may stand inside JSON strings.

    Raises:
        UNREADABLE: the file cannot be unpacked, or a line is longer than `LONGEST_ROW`.
    """
    for line in _read(path, lambda file: file.readline(LONGEST_ROW + 1)):
        if len(line) > LONGEST_ROW:
            raise OSError(f"a line of more than {LONGEST_ROW // MEGABYTE} MB, the longest that is read")
        yield line.removeprefix(codecs.BOM_UTF8)


def pieces_of(path: Path) -> Iterator[bytes]:
    """A file in pieces of a megabyte; raises `UNREADABLE` where it cannot be unpacked."""
    return _read(path, lambda file: file.read(MEGABYTE))


def _read(path: Path, read: Callable[[BufferedIOBase], bytes]) -> Iterator[bytes]:
    """What each call of `read` takes out of a file, unpacked and with line feeds at the ends of its lines."""
    limit = most_unpacked(path)
    total = 0
    with _opened(path) as file:
        while data := read(file):
            total += len(data)
            if total > limit:
                raise OSError(too_packed(path))
            yield data


def _opened(path: Path) -> BufferedIOBase:
    """A file's bytes, unpacked, with line feeds in place of the carriage returns where its lines end in these alone."""
    with _unpacked(path) as file:
        translates = _ends_in_carriage_returns(file)
    file = _unpacked(path)
    return BufferedReader(_WithLineFeeds(file)) if translates else file


def _unpacked(path: Path) -> BufferedIOBase:
    """A file's bytes, unpacked where its name ends in .gz or .zst, or its first bytes are those of such a file.

    Several frames of zstd are read as one.
    """
    with path.open("rb") as file:
        first = file.read(4)
    if path.name.endswith(".gz") or first.startswith(_GZIP):
        return gzip.open(path, "rb")
    if path.name.endswith(".zst") or first == _ZSTD:
        import pyarrow as pa

        return BufferedReader(pa.CompressedInputStream(pa.OSFile(os.fspath(path)), "zstd"))
    return path.open("rb")


def _ends_in_carriage_returns(file: BufferedIOBase) -> bool:
    """Whether the first line of a file ends in a carriage return without a line feed behind it.

    Neither stands inside a string of JSON, where both are written as escapes, nor in the header of most tables.
    """
    before = b""
    size = 0
    while size <= LONGEST_ROW and (piece := file.read(MEGABYTE)):
        size += len(piece)
        end = _LINE_END.search(before + piece)
        if end is not None:
            return not end[0].endswith(b"\n")
        # Of a return at the end of a piece nobody knows yet whether a line feed follows.
        before = piece[-1:]
    return before == b"\r"


class _WithLineFeeds(RawIOBase):
    """A file with line feeds in place of its carriage returns, as spreadsheets on old Macs end lines."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer)).replace(b"\r", b"\n")
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def what_came(error: Exception) -> str:
    """What a file holds in place of readable text; of text that is not UTF-8 how to convert it, mostly from Latin-1."""
    if not isinstance(error, UnicodeDecodeError):
        return one_line(error)
    byte = error.object[error.start]
    return (
        f"text that is not UTF-8 (byte 0x{byte:02x}): convert the file with iconv -f LATIN1 -t UTF-8 FILE > NEW, or "
        "name the encoding that it has in place of LATIN1"
    )


def most_unpacked(path: Path) -> int:
    """How many bytes may be unpacked of a file."""
    return max(UNPACKED_ALWAYS, UNPACKED_TIMES * path.stat().st_size)


def too_packed(path: Path) -> str:
    """What is said of a file that holds more than `most_unpacked` bytes."""
    return (
        f"more than {most_unpacked(path) // MEGABYTE:,} MB unpacked from {path.stat().st_size:,} bytes "
        f"(the limit: {UNPACKED_TIMES} times the file, and {UNPACKED_ALWAYS // MEGABYTE} MB at least)"
    )
