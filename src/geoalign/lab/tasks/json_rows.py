"""Rows of JSON in files of other people's, also in gzip: neither a line nor what is packed can fill the memory."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from geoalign.lab.store.strict_json import StrictJson, StrictJsonError
from geoalign.shown import brief

MEGABYTE = 2**20
# The longest row of JSON. A row of 64 responses of 32,000 tokens has 8 MB; parsed, a row can take 30 times as much.
LONGEST_ROW = 16 * MEGABYTE
# What may be unpacked of a packed file: so much of any, and so many times its size of a large one. Text packs 3 to 20
# times smaller; gzip packs zeros 1,000 times.
UNPACKED_ALWAYS = 64 * MEGABYTE
UNPACKED_TIMES = 200

# What reading a file of text can raise on the way; what came before it is whole.
READING_ERRORS = (OSError, EOFError, zlib.error)


class TooLargeError(OSError):
    """A line, or what is packed in a file, is larger than is read; the message says which limit."""


class LineError(ValueError):
    """A file of lines that cannot be read from some line on; `line` is its number, the message what came."""

    def __init__(self, line: int, error: Exception) -> None:
        super().__init__(brief(error))
        self.line = line


def most_unpacked(path: Path) -> int:
    """Bytes that may come out of a packed file."""
    return max(UNPACKED_ALWAYS, UNPACKED_TIMES * path.stat().st_size)


def too_packed(path: Path) -> str:
    """What to say of a file that holds more than `most_unpacked`."""
    return (
        f"more than {most_unpacked(path) // MEGABYTE:,} MB unpacked from {path.stat().st_size:,} bytes "
        f"(the limit: {UNPACKED_TIMES} times the file, and {UNPACKED_ALWAYS // MEGABYTE} MB at least)"
    )


def pieces(path: Path) -> Iterator[bytes]:
    """The content of a file in pieces, unpacked where its name ends in .gz, without a byte order mark.

    Raises:
        OSError, EOFError, zlib.error: it cannot be read or unpacked; TooLargeError: more than `most_unpacked` is in it.
    """
    packed = path.name.endswith(".gz")
    with cast(BufferedReader, gzip.open(path, "rb")) if packed else path.open("rb") as file:
        most = most_unpacked(path) if packed else None
        start = file.read(len(codecs.BOM_UTF8))
        total = len(start)
        yield start.removeprefix(codecs.BOM_UTF8)
        # `read1`: what comes before broken bytes is given, not lost with them.
        while piece := file.read1(MEGABYTE):
            total += len(piece)
            if most is not None and total > most:
                raise TooLargeError(too_packed(path))
            yield piece


def text_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that are not empty, without line ends, each with its number, from 1.

    In bytes: a text file would also be split at other line ends, which may stand inside JSON strings.

    Raises:
        LineError: the file cannot be read (on), or a line is longer than `LONGEST_ROW`.
    """
    number = 1
    rest: list[bytes] = []
    length = 0
    try:
        for piece in pieces(path):
            if not length and not piece.strip(b"\n"):
                number += len(piece)  # empty lines by the million
                continue
            first, *whole = piece.split(b"\n")
            rest.append(first)
            length += len(first)
            if length > LONGEST_ROW:
                raise TooLargeError(f"a line of more than {LONGEST_ROW // MEGABYTE} MB, the longest that is read")
            if not whole:
                continue
            last = whole.pop()
            for line in (b"".join(rest), *whole):
                if line and line.strip():
                    yield number, line.removesuffix(b"\r")
                number += 1
            rest, length = [last], len(last)
        if (line := b"".join(rest)).strip():
            yield number, line.removesuffix(b"\r")
    except READING_ERRORS as error:
        raise LineError(number, error) from error


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row of a file.

    Attributes:
        number: 0-based among the rows of the file; empty lines are none.
        line: its number in the file, from 1: of the line, or of the row of a parquet file or an array.
        value: its fields; None where it is no row.
        problem: why it is none: what was expected and what came.
        data: its bytes without the line end; empty in parquet.
        rest_lost: nothing behind it can be read.
    """

    number: int
    line: int
    value: dict[str, Any] | None
    problem: str | None = None
    data: bytes = b""
    rest_lost: bool = False


def json_lines(path: Path, reader: StrictJson) -> Iterator[RawRow]:
    """The lines of a file of JSON, empty ones passed over; behind one that cannot be unpacked nothing can be read."""
    number = 0
    try:
        for line, data in text_lines(path):
            yield _row_of_line(number, line, data, reader)
            number += 1
    except LineError as error:
        yield RawRow(number, error.line, None, f"expected lines of JSON, got {error}", rest_lost=True)


def _row_of_line(number: int, line: int, data: bytes, reader: StrictJson) -> RawRow:
    try:
        return _row(number, line, reader.value(data.decode("utf-8")), data)
    except json.JSONDecodeError as error:
        problem = f"expected a JSON object, got JSONDecodeError: {error.msg} (column {error.colno})"
    except StrictJsonError as error:
        problem = f"expected plain JSON, got {error}"
    except (ValueError, RecursionError) as error:
        problem = f"expected a JSON object in UTF-8, got {type(error).__name__}: {brief(error)}"
    return RawRow(number, line, None, problem, data)


def _row(number: int, line: int, value: Any, data: bytes) -> RawRow:
    if not isinstance(value, dict):
        return RawRow(number, line, None, f"expected a JSON object, got {type(value).__name__}", data)
    return RawRow(number, line, value, data=data)


def json_array(path: Path, reader: StrictJson) -> Iterator[RawRow]:
    """The entries of the one array that a file holds; nothing of it where it is none."""
    try:
        entries = reader.value(b"".join(pieces(path)).decode("utf-8"))
        got = type(entries).__name__
    except (ValueError, RecursionError, *READING_ERRORS) as error:
        entries, got = None, f"{type(error).__name__}: {brief(error)}"
    if not isinstance(entries, list):
        yield RawRow(0, 1, None, f"expected an array of JSON, got {got}", rest_lost=True)
        return
    for number, entry in enumerate(entries):
        yield _row(number, number + 1, entry, b"")
