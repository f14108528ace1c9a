"""The rows of a file as they stand there: JSONL, an array of JSON, parquet; each row with its place or its problem."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.store.strict_json import StrictJson, StrictJsonError
from geoalign.lab.tasks.json_arrays import array_entries, begins_array
from geoalign.lab.tasks.parquet_rows import ParquetError, parquet_rows
from geoalign.lab.tasks.text_files import LineError, text_lines
from geoalign.shown import brief

# How the name of a dump may end; a `.json` file holds lines, as Trinity writes them, or one array of rows.
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row of a file.

    Attributes:
        number: 0-based among the rows of the file; empty lines are none.
        line: where it stands, counted from 1: the line, or the row of a parquet file or an array.
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


def is_parquet(path: Path) -> bool:
    """Whether the file is read as parquet."""
    return path.name.endswith(".parquet")


def is_array(path: Path) -> bool:
    """Whether the file is one array of JSON: a `.json` file that begins with a bracket."""
    return path.name.removesuffix(".gz").endswith(".json") and begins_array(path)


def check_name(path: Path) -> None:
    """Raises ConfigError unless there is a file whose name says what it holds."""
    if not path.is_file():
        raise ConfigError(f"{path}: expected a file of rollouts, got none there")
    if not path.name.endswith(SUFFIXES):
        raise ConfigError(f"{path}: expected a name that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")


def raw_rows(path: Path) -> Iterator[RawRow]:
    """Every row of a dump, in order; one that cannot be read comes with its problem.

    Raises:
        ConfigError: no such file, or another kind of name.
    """
    check_name(path)
    if is_parquet(path):
        return numbered_parquet_rows(path)
    return array_rows(path, StrictJson()) if is_array(path) else json_rows(path, StrictJson())


def place(path: Path, line: int) -> str:
    """ "dump.jsonl, line 3"; "dump.parquet, row 3"."""
    return f"{path}, {'row' if is_parquet(path) or is_array(path) else 'line'} {line}"


def json_rows(path: Path, reader: StrictJson) -> Iterator[RawRow]:
    """The lines of a file of JSON, empty ones passed over; behind one that cannot be unpacked nothing can be read."""
    number = 0
    try:
        for line, data in text_lines(path):
            yield _json_row(number, line, data, reader)
            number += 1
    except LineError as error:
        yield RawRow(number, error.line, None, f"expected lines of JSON, got {error}", rest_lost=True)


def _json_row(number: int, line: int, data: bytes, reader: StrictJson) -> RawRow:
    try:
        value = reader.value(data.decode("utf-8"))
    except json.JSONDecodeError as error:
        problem = f"expected a JSON object, got JSONDecodeError: {error.msg} (column {error.colno})"
        return RawRow(number, line, None, problem, data)
    except StrictJsonError as error:
        return RawRow(number, line, None, f"expected plain JSON, got {error}", data)
    except (ValueError, RecursionError) as error:
        problem = f"expected a JSON object in UTF-8, got {type(error).__name__}: {brief(error)}"
        return RawRow(number, line, None, problem, data)
    return _object_row(number, line, value, data)


def array_rows(path: Path, reader: StrictJson) -> Iterator[RawRow]:
    """The entries of one array of JSON; behind one that cannot be read nothing can be."""
    for entry in array_entries(path, reader):
        number, data = entry.number - 1, entry.text.encode("utf-8")
        if entry.problem is not None:
            yield RawRow(number, entry.number, None, entry.problem, data, rest_lost=entry.last)
        else:
            yield _object_row(number, entry.number, entry.value, data)


def _object_row(number: int, line: int, value: Any, data: bytes) -> RawRow:
    if not isinstance(value, dict):
        return RawRow(number, line, None, f"expected a JSON object, got {type(value).__name__}", data)
    return RawRow(number, line, value, data=data)


def numbered_parquet_rows(path: Path) -> Iterator[RawRow]:
    """The rows of a parquet file; behind one that cannot be read nothing can be."""
    number = 0
    try:
        for number, value in enumerate(parquet_rows(path), start=1):
            yield RawRow(number - 1, number, value)
    except ParquetError as error:
        yield RawRow(number, number + 1, None, str(error), rest_lost=True)
