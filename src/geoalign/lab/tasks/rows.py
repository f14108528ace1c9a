"""Rows of the user's own files: JSONL (also in gzip), JSON, parquet; and fields by dotted name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, InputError
from geoalign.lab.store.strict_json import StrictJson
from geoalign.lab.tasks.json_arrays import array_entries
from geoalign.lab.tasks.parquet_rows import ParquetError, parquet_rows
from geoalign.lab.tasks.text_files import LineError, text_lines
from geoalign.shown import brief

_ABSENT = object()

# How the name of a file that can be read ends.
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".parquet")


def read_rows(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row of a file with its place in it ("line 3"; "row 3" in parquet and JSON; counted from 1), in order.

    A `.json` file is one array of objects. Numbers in JSON are kept as the text that stands there, so that
    9007199254740993 and 27.0 stay what they are. Empty lines are passed over.

    Raises:
        ConfigError: no such file, or not one of `SUFFIXES`.
        InputError: content that is not what the name says; the message has the line.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise ConfigError(f"{path}: expected a file, got none there")
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        return _json_rows(path)
    if path.name.endswith(".json"):
        return _array_rows(path)
    if path.name.endswith(".parquet"):
        return _parquet_rows(path)
    raise ConfigError(f"{path}: expected a name that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")


def field_of(row: Mapping[str, Any], name: str) -> Any:
    """The value of a dotted field name (`reward_model.ground_truth`, `prompt.0.content`); None where there is none.

    A key that holds the dots itself comes first.
    """
    if name in row:
        return row[name]
    value: Any = row
    for part in name.split("."):
        value = _step(value, part)
        if value is _ABSENT:
            return None
    return value


def _step(value: Any, part: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(part, _ABSENT)
    # No list has so many entries that their numbers have 19 digits.
    index = isinstance(value, Sequence) and not isinstance(value, str) and part.isdecimal() and len(part) < 19
    return value[int(part)] if index and int(part) < len(value) else _ABSENT


def _json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = StrictJson(as_text=True)
    try:
        for number, line in text_lines(path):
            yield f"line {number}", _json_object(path, number, line, reader)
    except LineError as error:
        raise InputError(f"{path}, line {error.line}: expected lines of JSON, got {error}") from error


def _json_object(path: Path, number: int, line: bytes, reader: StrictJson) -> dict[str, Any]:
    try:
        row = reader.value(line.decode("utf-8"))
        if not isinstance(row, dict):
            raise ValueError(f"expected an object, got {type(row).__name__}")
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}, line {number}: expected a JSON object in UTF-8, got {type(error).__name__}: {brief(error)}"
        ) from error
    return row


def _array_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in array_entries(path, StrictJson(as_text=True)):
        where = f"{path}, row {entry.number}"
        if entry.problem is not None:
            raise InputError(f"{where}: {entry.problem}")
        if not isinstance(entry.value, dict):
            raise InputError(f"{where}: expected an object, got {type(entry.value).__name__}")
        yield f"row {entry.number}", entry.value


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        for number, row in enumerate(parquet_rows(path), start=1):
            yield f"row {number}", row
    except ParquetError as error:
        raise InputError(f"{path}: {error}") from error
