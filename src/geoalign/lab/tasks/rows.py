"""Rows of files of other people's: JSONL (also in gzip), JSON, parquet; and fields by dotted name.

Neither a line nor what is packed can fill the memory.
"""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, InputError, MissingExtraError
from geoalign.shown import brief, listed, shown

# How the name of a file of problems or dialogues may end; a `.json` file is one array of rows.
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".parquet")
# How the name of a dump may end; a `.json` file holds lines, as Trinity writes them.
DUMP_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")

MEGABYTE = 2**20
# The longest row of JSON. A row of 64 responses of 32,000 tokens has 8 MB; parsed, a row can take 30 times as much.
LONGEST_ROW = 16 * MEGABYTE
# What may be unpacked of a packed file: so much of any, and so many times its size of a large one. Text packs 3 to 20
# times smaller; gzip packs zeros 1,000 times.
UNPACKED_ALWAYS = 64 * MEGABYTE
UNPACKED_TIMES = 200
# Rows of parquet that are turned into Python's values at a time, and what each counts at least of what is unpacked.
_ROWS, _ROW_BYTES = 32, 64

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row of a file.

    Attributes:
        number: 0-based among the rows of the file; empty lines are none.
        line: its number in the file, from 1: of the line, or of the row of a parquet file or an array.
        value: its fields; None where it is no row.
        problem: why it is none: what was expected and what came.
        rest_lost: nothing behind it can be read.
    """

    number: int
    line: int
    value: dict[str, Any] | None
    problem: str | None = None
    rest_lost: bool = False


def read_rows(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row of a file with its number in it ("line 3"; "row 3" in parquet and JSON; counted from 1), in order.

    A `.json` file is one array of objects. Numbers in JSON are kept as the text in the file, so that
    9007199254740993 and 27.0 stay what they are. Empty lines are passed over.
    """
    path = Path(path).expanduser()
    _check_name(path, "a file", SUFFIXES)
    if is_parquet(path):
        return checked(_parquet_rows(path), path, "row")
    if path.name.endswith(".json"):
        return checked(_json_array(path), path, "row")
    return checked(json_lines(path, as_text=True), path, "line")


def checked(rows: Iterable[RawRow], path: Path, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with their number ("line 3"; `kind` is "line" or "row"); InputError with the number for one that is none."""
    for raw in rows:
        if raw.value is None:
            raise InputError(f"{path}, {kind} {raw.line}: {raw.problem}")
        yield f"{kind} {raw.line}", raw.value


def dump_rows(path: Path) -> Iterator[RawRow]:
    """Every row of a dump, in order; one that cannot be read comes with its problem."""
    check_dump_name(path)
    return _parquet_rows(path) if is_parquet(path) else json_lines(path)


def check_dump_name(path: Path) -> None:
    """Raises ConfigError unless there is a file whose name says what it holds."""
    _check_name(path, "a file of rollouts", DUMP_SUFFIXES)


def _check_name(path: Path, kind: str, suffixes: Sequence[str]) -> None:
    if not path.is_file():
        raise ConfigError(f"{path}: expected {kind}, got none there")
    if not path.name.endswith(tuple(suffixes)):
        raise ConfigError(f"{path}: expected a name that ends in {', '.join(suffixes[:-1])} or {suffixes[-1]}")


def is_parquet(path: Path) -> bool:
    """Whether the file is read as parquet."""
    return path.name.endswith(".parquet")


def row_name(path: Path, line: int) -> str:
    """ "dump.jsonl, line 3"; "dump.parquet, row 3"."""
    return f"{path}, {'row' if is_parquet(path) else 'line'} {line}"


def strict_json(data: str | bytes, *, as_text: bool = False) -> Any:
    """The value of a JSON text, in UTF-8 where it comes as bytes; ValueError where it is none.

    A key that is twice in one object is an error too: Python's reader would drop the first in silence.

    Args:
        as_text: keep numbers as the text in the file.
    """
    kinds: dict[str, Any] = {"parse_int": str, "parse_float": str} if as_text else {}
    text = data.decode("utf-8") if isinstance(data, bytes) else data
    try:
        return json.loads(text, object_pairs_hook=_each_key_once, **kinds)
    except json.JSONDecodeError as error:
        raise ValueError(f"JSONDecodeError: {error.msg} (column {error.colno})") from error
    except RecursionError as error:
        raise ValueError("values nested too deeply") from error


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {shown(twice)} twice in one object")
    return value


def json_lines(path: Path, *, as_text: bool = False) -> Iterator[RawRow]:
    """The lines of a file of JSON, empty ones passed over; behind one that cannot be unpacked nothing can be read."""
    number = line = 0
    try:
        for line, data in enumerate(_lines(path), start=1):
            if data.strip():
                yield _row(number, line, data, as_text=as_text)
                number += 1
    except (OSError, EOFError, zlib.error) as error:
        yield RawRow(number, line + 1, None, f"expected lines of JSON, got {brief(error)}", rest_lost=True)


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, unpacked where its name ends in .gz, without a byte order mark.

    In bytes: a text file would also be split at other line ends, which may stand inside JSON strings.
    """
    packed, total = path.name.endswith(".gz"), 0
    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        while data := file.readline(LONGEST_ROW + 1):
            if len(data) > LONGEST_ROW:
                raise OSError(f"a line of more than {LONGEST_ROW // MEGABYTE} MB, the longest that is read")
            if packed and total + len(data) > _most_unpacked(path):
                raise OSError(_too_packed(path))
            yield data if total else data.removeprefix(codecs.BOM_UTF8)
            total += len(data)


def _row(number: int, line: int, data: bytes, *, as_text: bool) -> RawRow:
    try:
        value = strict_json(data, as_text=as_text)
    except ValueError as error:
        return RawRow(number, line, None, f"expected a JSON object, got {brief(error)}")
    return _object(number, line, value)


def _object(number: int, line: int, value: Any) -> RawRow:
    if isinstance(value, dict):
        return RawRow(number, line, value)
    return RawRow(number, line, None, f"expected a JSON object, got {type(value).__name__}")


def _json_array(path: Path) -> Iterator[RawRow]:
    try:
        entries = strict_json(path.read_bytes().removeprefix(codecs.BOM_UTF8), as_text=True)
        got = type(entries).__name__
    except (ValueError, OSError) as error:
        entries, got = None, brief(error)
    if not isinstance(entries, list):
        yield RawRow(0, 1, None, f"expected an array of JSON, got {got}", rest_lost=True)
        return
    yield from (_object(number, number + 1, entry) for number, entry in enumerate(entries))


def _most_unpacked(path: Path) -> int:
    return max(UNPACKED_ALWAYS, UNPACKED_TIMES * path.stat().st_size)


def _too_packed(path: Path) -> str:
    return (
        f"more than {_most_unpacked(path) // MEGABYTE:,} MB unpacked from {path.stat().st_size:,} bytes "
        f"(the limit: {UNPACKED_TIMES} times the file, and {UNPACKED_ALWAYS // MEGABYTE} MB at least)"
    )


def _parquet_rows(path: Path) -> Iterator[RawRow]:
    """The rows of a parquet file; behind one that cannot be read nothing can be."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtraError(f"{path}: reading parquet needs pyarrow: pip install 'geoalign[trl]'") from error
    number, problem = 0, None
    try:
        with parquet.ParquetFile(path) as file:
            problem = _refusal(path, file)
            for batch in file.iter_batches(batch_size=_ROWS) if problem is None else ():
                for value in batch.to_pylist():
                    yield RawRow(number, number + 1, value)
                    number += 1
            if problem is None and number != file.metadata.num_rows:
                problem = f"expected the {file.metadata.num_rows} rows that the file declares, got {number}"
    except (pa.ArrowException, OSError, ArithmeticError, MemoryError, ValueError, TypeError, LookupError) as error:
        problem = f"expected a parquet file, got {type(error).__name__}: {brief(error)}"
    if problem is not None:
        yield RawRow(number, number + 1, None, problem, rest_lost=True)


def _refusal(path: Path, file: Any) -> str | None:
    """Why a parquet file is not read: two columns of one name, or far more in it than it is large."""
    twice = [name for name, count in Counter(file.schema_arrow.names).items() if count > 1]
    if twice:
        return f"expected columns of different names, got two or more of {listed(twice)}"
    groups = [file.metadata.row_group(number).total_byte_size for number in range(file.metadata.num_row_groups)]
    if max(file.metadata.num_rows * _ROW_BYTES, sum(groups)) > _most_unpacked(path):
        return f"expected a parquet file that fits in memory, got {_too_packed(path)}"
    return None


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
