"""Rows of the user's own files: JSONL (also in gzip), JSON, parquet; and fields by dotted name."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, InputError, MissingExtraError

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
    if isinstance(value, Sequence) and not isinstance(value, str) and part.isdecimal() and int(part) < len(value):
        return value[int(part)]
    return _ABSENT


def _json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    open_text = gzip.open if path.name.endswith(".gz") else open
    number = 0
    try:
        with open_text(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield f"line {number}", _json_object(line)
    except (ValueError, RecursionError, EOFError, OSError, zlib.error) as error:
        # UnicodeDecodeError and JSONDecodeError are ValueErrors. Bytes are decoded ahead of the line that is read.
        undecoded = isinstance(error, UnicodeError | OSError | EOFError | zlib.error)
        where = f"after line {number}" if undecoded else f"line {number}"
        raise InputError(
            f"{path}, {where}: expected a JSON object in UTF-8, got {type(error).__name__}: {error}"
        ) from error


def _json_object(line: str) -> dict[str, Any]:
    row = json.loads(line, parse_int=str, parse_float=str)
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {type(row).__name__}")
    return row


def _array_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        rows = json.loads(path.read_bytes(), parse_int=str, parse_float=str)
    except (ValueError, RecursionError, OSError) as error:
        raise InputError(f"{path}: expected a JSON array in UTF-8, got {type(error).__name__}: {error}") from error
    if not isinstance(rows, list):
        raise InputError(f"{path}: expected a JSON array of objects, got {type(rows).__name__}")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise InputError(f"{path}, row {number}: expected an object, got {type(row).__name__}")
        yield f"row {number}", row


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtraError(f"{path}: reading parquet needs pyarrow: pip install 'geoalign[trl]'") from error
    try:
        number = 0
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=1024):
                for row in batch.to_pylist():
                    number += 1
                    yield f"row {number}", row
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: expected a parquet file, got {type(error).__name__}: {error}") from error
