"""Rows of JSON: one object a line, one array of objects, or one object that holds such an array.

The content of a file says which of the three it is, not its name. Lines and arrays are read piece by piece.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from geoalign.dumps import raw_rows
from geoalign.dumps.raw_rows import UNREADABLE, RawRow, lines_of, pieces_of, what_came
from geoalign.text import one_line, quote

# The largest file that is one object around its rows: it is parsed at once.
LARGEST_OBJECT = 256 * raw_rows.MEGABYTE
# Under these names an object holds the rows of a file; under any other name if that is its only list of objects, but
# not under those that a single rollout has.
_ROWS_INSIDE = ("data", "rows", "rollouts", "samples", "results", "records", "examples")
_PARTS_OF_ROLLOUTS = ("prompt", "response", "completion", "messages", "conversation", "conversations", "traces")
# What to do with rollouts that do not stand on a line each.
_A_LINE_EACH = "write each rollout on a line of its own"
_BY_JQ = "jq -c . FILE > NEW.jsonl"
# The first bytes of a parquet file.
_PARQUET = b"PAR1"
_SPACE = re.compile(r"\s*")


class _Json(json.JSONDecoder):
    """Decodes JSON; `repeated` is a key that stood twice in one object of the value decoded last, or None."""

    def __init__(self) -> None:
        super().__init__(object_pairs_hook=self._as_dict)
        self.repeated: str | None = None

    def _as_dict(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs) and self.repeated is None:
            counts = Counter(key for key, _ in pairs)
            self.repeated = counts.most_common(1)[0][0]
        return value

    def value_at(self, text: str, place: int) -> tuple[Any, int]:
        """The value that begins at a place of a text, and the place where it ends."""
        self.repeated = None
        return self.raw_decode(text, place)

    def whole(self, data: bytes) -> Any:
        """The only value of a text in UTF-8; ValueError says why there is none."""
        self.repeated = None
        try:
            return self.decode(data.decode("utf-8"))
        except UnicodeDecodeError as error:
            if error.end == len(data):
                raise ValueError("text that ends inside a character") from error
            raise _NotAValueError(what_came(error)) from error
        except json.JSONDecodeError as error:
            raise _problem_of(error) from error
        except RecursionError as error:
            raise ValueError("values nested too deeply") from error

    def row(self, number: int, line: int, value: Any) -> RawRow:
        """The value decoded last as a row, or what is wrong with it as one."""
        problem = None
        if self.repeated is not None:
            problem = f"the key {quote(self.repeated)} twice in one object"
        elif not isinstance(value, dict):
            problem = type(value).__name__
        if problem is None:
            return RawRow(number, line, value)
        return RawRow(number, line, None, f"expected a JSON object, got {problem}")


class _NotAValueError(ValueError):
    """A line holds no text in UTF-8, more than one value of JSON or a part of one: what it holds, and what to do."""


def _problem_of(error: json.JSONDecodeError) -> ValueError:
    """What a line holds in place of one value of JSON."""
    behind = error.doc[error.pos :]
    values_behind = behind.lstrip(" ,\t\r\n")
    if error.msg == "Extra data" and values_behind.startswith(("{", "[")):
        column = len(error.doc) - len(values_behind) + 1
        remedy = _A_LINE_EACH if "," in behind[: -len(values_behind)] else f"{_A_LINE_EACH} ({_BY_JQ})"
        return _NotAValueError(f"several on one line, the second from column {column} on: {remedy}")
    if error.msg == "Extra data" and behind.strip() == ",":
        return _NotAValueError("one with a comma behind it: leave the commas out, or put the whole into [ ]")
    goes_on = error.doc.lstrip().startswith("{") and error.doc.endswith("\n") and not behind.strip()
    if goes_on:
        return _NotAValueError(f"one that does not end in this line: {_A_LINE_EACH} ({_BY_JQ})")
    return ValueError(f"JSONDecodeError: {error.msg} (column {error.colno})")


def json_rows(path: Path) -> Iterator[RawRow]:
    """The rows of a file of JSON in any of the three forms."""
    first, more_follows = _first_line(path)
    if first.startswith(_PARQUET):
        problem = "expected lines of JSON, got a parquet file: give it a name that ends in .parquet"
        return iter([RawRow(0, 1, None, problem, rest_lost=True)])
    if more_follows and _is_json(first):
        return json_lines(path)
    if first.startswith(b"["):
        return _array_rows(path)
    if first.strip() == b"{" and path.stat().st_size > LARGEST_OBJECT:
        largest = LARGEST_OBJECT // raw_rows.MEGABYTE
        problem = f"expected one row a line, got one object of more than {largest} MB (Inspect: convert it to .eval)"
        return iter([RawRow(0, 1, None, problem, rest_lost=True)])
    if first.startswith(b"{"):
        return _rows_of_object(path) or json_lines(path)
    return json_lines(path)


def _first_line(path: Path) -> tuple[bytes, bool]:
    """The first line that is not only space, cut at `LONGEST_ROW` bytes, and whether another follows it.

    An empty line stands for a file that cannot be unpacked: reading it says why.
    """
    data = b""
    try:
        for piece in pieces_of(path):
            data = (data + piece).removeprefix(codecs.BOM_UTF8).lstrip()
            first, _, others = data.partition(b"\n")
            if others.strip() or len(data) > raw_rows.LONGEST_ROW:
                return first, bool(others.strip())
    except UNREADABLE:
        return b"", False
    return data, False


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def json_lines(path: Path) -> Iterator[RawRow]:
    """The lines of a file of JSON without the empty ones; behind one that cannot be unpacked nothing can be read."""
    decoder = _Json()
    number = 0
    line = 0
    try:
        for line, data in enumerate(lines_of(path), start=1):
            if not data.strip():
                continue
            try:
                row = decoder.row(number, line, decoder.whole(data))
            except _NotAValueError as error:
                row = RawRow(number, line, None, f"expected a JSON object, got {error}")
            except ValueError as error:
                # Only the last line of a file has no end.
                cut = "" if data.endswith(b"\n") else "; the file ends inside this line: is it still being written?"
                row = RawRow(number, line, None, f"expected a JSON object, got {one_line(error)}{cut}")
            yield row
            number += 1
    except UNREADABLE as error:
        yield RawRow(number, line + 1, None, f"expected lines of JSON, got {one_line(error)}", rest_lost=True)


def _array_rows(path: Path) -> Iterator[RawRow]:
    """The entries of a file that is one array of JSON; behind broken JSON nothing can be read."""
    number = 0
    try:
        text = _ArrayText(path)
        text.skip("[")
        while not text.skip("]"):
            if number and not text.skip(","):
                raise ValueError(f"{quote(text.next())} behind an entry, instead of a comma (line {text.line})")
            if number and text.skip("]"):
                break
            value = text.entry()
            yield text.decoder.row(number, number + 1, value)
            number += 1
        if text.next():
            raise ValueError(f"{quote(text.rest(20))} behind its end")
    except (*UNREADABLE, ValueError) as error:
        problem = f"expected an array of JSON, got {what_came(error)}"
        yield RawRow(number, number + 1, None, problem, rest_lost=True)
    except RecursionError:
        problem = "expected an array of JSON, got values nested too deeply"
        yield RawRow(number, number + 1, None, problem, rest_lost=True)


class _ArrayText:
    """The text of an array of JSON, of which only what is being read is in memory."""

    def __init__(self, path: Path) -> None:
        self.decoder = _Json()
        self._pieces = pieces_of(path)
        self._characters = codecs.getincrementaldecoder("utf-8-sig")()
        # What has been read of the file, the place in it up to which it was used, and the lines before it.
        self._text = ""
        self._place = 0
        self._lines_before = 0
        self._ended = False

    @property
    def line(self) -> int:
        """The line of the file in which the next character stands."""
        return self._lines_before + self._text.count("\n", 0, self._place) + 1

    def next(self) -> str:
        """The next character that is no space, which is not used yet; "" at the end of the file."""
        while True:
            space = _SPACE.match(self._text, self._place)
            self._place = space.end() if space else self._place
            if self._place < len(self._text) or self._ended:
                return self._text[self._place : self._place + 1]
            self._read_on()

    def skip(self, character: str) -> bool:
        """Goes behind the next character if it is this one, and says whether it was."""
        found = self.next() == character
        self._place += found
        return found

    def rest(self, most: int) -> str:
        """What stands next, in at most so many characters."""
        return self._text[self._place : self._place + most].strip()

    def entry(self) -> Any:
        """The next entry of the array; ValueError where none begins here, or it is longer than `LONGEST_ROW`."""
        self.next()
        while True:
            end = -1
            problem = "nothing: the file ends inside of it"
            try:
                value, end = self.decoder.value_at(self._text, self._place)
            except json.JSONDecodeError as error:
                if self._place < len(self._text):
                    problem = f"JSONDecodeError: {error.msg} (line {self._lines_before + error.lineno})"
            # An entry that ends with what was read so far may go on behind it.
            if end >= 0 and (end < len(self._text) or self._ended):
                self._place = end
                return value
            if self._ended:
                raise ValueError(problem)
            if len(self._text) - self._place > raw_rows.LONGEST_ROW:
                longest = raw_rows.LONGEST_ROW // raw_rows.MEGABYTE
                raise ValueError(f"an entry of more than {longest} MB, or a broken one: {problem}")
            self._read_on()

    def _read_on(self) -> None:
        """Reads another piece of the file, and lets go what was used."""
        self._lines_before += self._text.count("\n", 0, self._place)
        piece = next(self._pieces, b"")
        self._ended = not piece
        self._text = self._text[self._place :] + self._characters.decode(piece, final=self._ended)
        self._place = 0


def _rows_of_object(path: Path) -> Iterator[RawRow] | None:
    """The rows inside a file that is one JSON object: a list under a known name, or `columns` and `data`.

    An object that is a row itself, written over several lines, is the only row. None where the file is no such object.
    """
    if path.stat().st_size > LARGEST_OBJECT:
        return None
    decoder = _Json()
    try:
        data = b"".join(pieces_of(path))
        value = decoder.whole(data.removeprefix(codecs.BOM_UTF8))
    except (*UNREADABLE, ValueError):
        return None
    if decoder.repeated is not None or not isinstance(value, dict):
        return None
    return (decoder.row(number, number + 1, entry) for number, entry in enumerate(_entries_inside(value)))


def _entries_inside(value: dict[str, Any]) -> list[Any]:
    """The entries of the list that an object holds, or the object itself as the only one.

    A table of `columns` and `data`, as W&B and pandas write it, has an entry for each of its rows; one with another
    number of cells than there are columns stays a list, which is no row.
    """
    columns = value.get("columns")
    data = value.get("data")
    if isinstance(columns, list) and isinstance(data, list) and all(isinstance(cells, list) for cells in data):
        names = [str(name) for name in columns]
        different = len(set(names)) == len(names)
        return [
            dict(zip(names, cells, strict=True)) if different and len(cells) == len(names) else cells for cells in data
        ]
    for name in _ROWS_INSIDE:
        if _are_objects(value.get(name)):
            return _without_wrapping(value[name])
    lists = [entries for entries in value.values() if _are_objects(entries)]
    if len(lists) == 1 and len(lists[0]) > 1 and not any(name in value for name in _PARTS_OF_ROLLOUTS):
        return lists[0]
    return [value]


def _are_objects(value: Any) -> bool:
    """Whether a value is a list of objects, one at least."""
    return isinstance(value, list) and bool(value) and all(isinstance(entry, dict) for entry in value)


def _without_wrapping(entries: list[dict[str, Any]]) -> list[Any]:
    """Rows as the Hub's data set viewer answers them, each inside an object with its number, without that object."""
    if all("row_idx" in entry and isinstance(entry.get("row"), dict) for entry in entries):
        return [entry["row"] for entry in entries]
    return entries
