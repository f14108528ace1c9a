"""The rows of a dump as they stand in the file: JSONL, an array of JSON, parquet; each row with its place."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import pyarrow
import pyarrow.parquet

from geoalign.errors import ConfigError, InputError

# How the name of a dump may end; a `.json` file holds lines, as Trinity writes them, or one array of rows.
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")
PARQUET_BATCH = 1024
_JSON = json.JSONDecoder()
_BLANKS = " \t\n\r"


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
    """Whether the file is one array of JSON, read whole: a `.json` file that begins with a bracket."""
    if not path.name.removesuffix(".gz").endswith(".json"):
        return False
    try:
        with _opened(path) as file:
            start = file.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8) or file.read(1)
            while start and not start.strip(_BLANKS.encode()):
                start = file.read(1)
    except (OSError, EOFError, zlib.error):
        return False
    return start.lstrip(_BLANKS.encode())[:1] == b"["


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
        return _parquet_rows(path)
    return _array_rows(path) if is_array(path) else _json_rows(path)


def place(path: Path, line: int) -> str:
    """ "dump.jsonl, line 3"; "dump.parquet, row 3"."""
    return f"{path}, {'row' if is_parquet(path) or is_array(path) else 'line'} {line}"


def _opened(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path, "rb")) if path.name.endswith(".gz") else path.open("rb")


def _json_rows(path: Path) -> Iterator[RawRow]:
    number, line = 0, 0
    try:
        # In bytes: a text file would also be split at other line ends, which may stand inside JSON strings.
        with _opened(path) as lines:
            for line, data in enumerate(lines, start=1):
                if line == 1:
                    data = data.removeprefix(codecs.BOM_UTF8)
                if data.strip():
                    yield _json_row(number, line, data.rstrip(b"\r\n"))
                    number += 1
    except (OSError, EOFError, zlib.error) as error:
        yield RawRow(number, line + 1, None, f"expected lines of JSON, got {error}", rest_lost=True)


def _json_row(number: int, line: int, data: bytes) -> RawRow:
    try:
        value = json.loads(data.decode("utf-8"))
    except json.JSONDecodeError as error:
        problem = f"expected a JSON object, got JSONDecodeError: {error.msg} (column {error.colno})"
        return RawRow(number, line, None, problem, data)
    except (ValueError, RecursionError) as error:
        return RawRow(number, line, None, f"expected a JSON object in UTF-8, got {type(error).__name__}: {error}", data)
    if not isinstance(value, dict):
        return RawRow(number, line, None, f"expected a JSON object, got {type(value).__name__}", data)
    return RawRow(number, line, value, data=data)


def _array_rows(path: Path) -> Iterator[RawRow]:
    """The entries of one array of JSON; behind one that cannot be read nothing can be."""

    def lost(problem: str) -> RawRow:
        return RawRow(number, number + 1, None, problem, rest_lost=True)

    number = 0
    try:
        with _opened(path) as file:
            text = file.read().decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        yield lost(f"expected an array of JSON in UTF-8, got {type(error).__name__}: {error}")
        return
    at = _behind_blanks(text, _behind_blanks(text, 0) + 1)
    while text[at : at + 1] != "]" or number:
        try:
            value, end = _JSON.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            yield lost(f"expected a JSON object, got {type(error).__name__}: {error}")
            return
        data = text[at:end].encode("utf-8")
        if isinstance(value, dict):
            yield RawRow(number, number + 1, value, data=data)
        else:
            yield RawRow(number, number + 1, None, f"expected a JSON object, got {type(value).__name__}", data)
        number += 1
        at = _behind_blanks(text, end)
        if text[at : at + 1] == "]":
            break
        if text[at : at + 1] != ",":
            yield lost(f"expected a comma or the end of the array before it, got {_glimpse(text, at)}")
            return
        at = _behind_blanks(text, at + 1)
    if (end := _behind_blanks(text, at + 1)) < len(text):
        yield lost(f"expected nothing behind the array, got {_glimpse(text, end)}")


def _behind_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _glimpse(text: str, at: int) -> str:
    return f"{text[at : at + 10]!a}" if at < len(text) else "the end of the file"


def _parquet_rows(path: Path) -> Iterator[RawRow]:
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=PARQUET_BATCH):
                for value in batch.to_pylist():
                    yield RawRow(number, number + 1, value)
                    number += 1
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        # UnicodeDecodeError is a ValueError: a text column with bytes that are no UTF-8.
        problem = f"expected a parquet file, got {type(error).__name__}: {error}"
        yield RawRow(number, number + 1, None, problem, rest_lost=True)


def parquet_schema(path: Path) -> pyarrow.Schema:
    """The columns of a parquet file.

    Raises:
        InputError: it is none.
    """
    try:
        return pyarrow.parquet.read_schema(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path}: expected a parquet file, got {type(error).__name__}: {error}") from error
