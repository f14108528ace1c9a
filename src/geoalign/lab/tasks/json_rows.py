"""Rows of JSON in a file, as lines or as one array; however long it is, no more than one row is in memory."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geoalign.lab.store.strict_json import StrictJson, StrictJsonError, behind_blanks
from geoalign.lab.tasks.text_files import LONGEST_ROW, MEGABYTE, READING_ERRORS, LineError, pieces, text_lines
from geoalign.shown import brief

# Characters that are read ahead of an entry, at first; twice as many for every try that ends in the middle of it.
_AHEAD = 2**16


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
    """The entries of the one array that a file holds; where one cannot be read, it is the last."""
    window, number = _Window(path), 0
    try:
        if window.sign() != "[":
            raise _ArrayError(f"expected an array of JSON, got {window.glimpse()}")
        window.pass_sign()
        while window.sign() != "]" or number:
            value, text, problem = window.entry(reader)
            data = text.encode("utf-8")
            if problem is None:
                yield _row(number, number + 1, value, data)
            else:
                yield RawRow(number, number + 1, None, f"expected plain JSON, got {problem}", data)
            number += 1
            if window.sign() == "]":
                break
            if window.sign() != ",":
                raise _ArrayError(f"expected a comma or the end of the array before it, got {window.glimpse()}")
            window.pass_sign()
        window.pass_sign()
        if window.sign():
            raise _ArrayError(f"expected nothing behind the array, got {window.glimpse()}")
    except _ArrayError as error:
        yield RawRow(number, number + 1, None, str(error), rest_lost=True)


class _ArrayError(ValueError):
    """Nothing behind here can be read."""


class _Window:
    """The text of a file behind what was read, as far as it has been needed."""

    def __init__(self, path: Path) -> None:
        self._pieces = pieces(path)
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text, self._at, self._passed = "", 0, 0
        self._ended = False
        self._broken: str | None = None

    def sign(self) -> str:
        """The next character that is no blank; empty at the end."""
        while True:
            self._at = behind_blanks(self._text, self._at)
            if self._at < len(self._text) or not self._more(1):
                return self._text[self._at : self._at + 1]

    def pass_sign(self) -> None:
        """Goes behind the character that `sign` gave."""
        self._at += 1

    def glimpse(self) -> str:
        """What comes next, in a few characters."""
        self.sign()
        text = self._text[self._at : self._at + 10]
        return f"{text!a}" if text else self._broken or "the end of the file"

    def entry(self, reader: StrictJson) -> tuple[Any, str, str | None]:
        """The next value, its text, and what would be lost of it.

        Raises:
            _ArrayError: it is none, or is longer than `LONGEST_ROW`.
        """
        self.sign()
        while True:
            try:
                value, end, problem = reader.next(self._text, self._at)
            except json.JSONDecodeError as error:
                # The entry may go on behind what has been read.
                if not self._longer():
                    raise _ArrayError(
                        f"expected a JSON object, got {self._broken or self._described(error)}"
                    ) from error
                continue
            except (ValueError, RecursionError) as error:
                raise _ArrayError(f"expected a JSON object, got {type(error).__name__}: {brief(error)}") from error
            # A number at the very end may have more digits.
            if end < len(self._text) or not self._longer():
                text, self._at = self._text[self._at : end], end
                return value, text, problem

    def _described(self, error: json.JSONDecodeError) -> str:
        most = f" among {LONGEST_ROW // MEGABYTE} MB, the longest that is read" if not self._ended else ""
        return f"{type(error).__name__}: {error.msg} (character {self._passed + error.pos + 1:,} of the file){most}"

    def _longer(self) -> bool:
        """Reads on, as much again as is there from here on; False where nothing more is read."""
        there = len(self._text) - self._at
        return there <= LONGEST_ROW and self._more(max(_AHEAD, min(there, LONGEST_ROW + 1 - there)))

    def _more(self, wanted: int) -> bool:
        """Reads at least that many characters more, where there are; False where there are none."""
        parts: list[str] = []
        while wanted > 0 and not self._ended:
            try:
                piece = next(self._pieces, None)
                self._ended = piece is None
                part = self._decoder.decode(piece or b"", final=self._ended)
            except (*READING_ERRORS, UnicodeDecodeError) as error:
                self._ended, self._broken = True, f"{type(error).__name__}: {brief(error)}"
                # What comes before the broken bytes can still be read.
                part = error.object[: error.start].decode() if isinstance(error, UnicodeDecodeError) else ""
            parts.append(part)
            wanted -= len(part)
        self._passed += self._at
        self._text, self._at = self._text[self._at :] + "".join(parts), 0
        return any(parts)
