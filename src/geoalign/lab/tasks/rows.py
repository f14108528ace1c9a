"""Rows of the user's own files: JSONL (also in gzip), JSON, parquet; and fields by dotted name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, InputError
from geoalign.lab.store.strict_json import StrictJson
from geoalign.lab.tasks.json_rows import RawRow, json_array, json_lines
from geoalign.lab.tasks.parquet_rows import ParquetError, parquet_rows

# How the name of a file of problems or dialogues may end; a `.json` file is one array of rows.
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".parquet")
# How the name of a dump may end; a `.json` file holds lines, as Trinity writes them.
DUMP_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")

_ABSENT = object()


def read_rows(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row of a file with its number in it ("line 3"; "row 3" in parquet and JSON; counted from 1), in order.

    A `.json` file is one array of objects. Numbers in JSON are kept as the text in the file, so that
    9007199254740993 and 27.0 stay what they are. Empty lines are passed over.

    Raises:
        ConfigError: no such file, or not one of `SUFFIXES`.
        InputError: content that is not what the name says; the message has the line.
    """
    path = Path(path).expanduser()
    _check_name(path, "a file", SUFFIXES)
    if is_parquet(path):
        return checked(_numbered_parquet_rows(path), path, "row")
    if path.name.endswith(".json"):
        return checked(json_array(path, StrictJson(as_text=True)), path, "row")
    return checked(json_lines(path, StrictJson(as_text=True)), path, "line")


def checked(rows: Iterable[RawRow], path: Path, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with their number ("line 3"; `kind` is "line" or "row"); InputError with the number for one that is none."""
    for raw in rows:
        if raw.value is None:
            raise InputError(f"{path}, {kind} {raw.line}: {raw.problem}")
        yield f"{kind} {raw.line}", raw.value


def dump_rows(path: Path) -> Iterator[RawRow]:
    """Every row of a dump, in order; one that cannot be read comes with its problem.

    Raises:
        ConfigError: no such file, or another kind of name.
    """
    check_dump_name(path)
    if is_parquet(path):
        return _numbered_parquet_rows(path)
    return json_lines(path, StrictJson())


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


def _numbered_parquet_rows(path: Path) -> Iterator[RawRow]:
    """The rows of a parquet file; behind one that cannot be read nothing can be."""
    number = 0
    try:
        for number, value in enumerate(parquet_rows(path), start=1):
            yield RawRow(number - 1, number, value)
    except ParquetError as error:
        yield RawRow(number, number + 1, None, str(error), rest_lost=True)


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
