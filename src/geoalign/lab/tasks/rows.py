"""Rows of the user's own files: JSONL (also in gzip), JSON, parquet; and fields by dotted name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, InputError
from geoalign.lab.store.strict_json import StrictJson
from geoalign.lab.tasks.raw_rows import RawRow, array_rows, json_rows, numbered_parquet_rows

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
        return checked(json_rows(path, StrictJson(as_text=True)), path, "line")
    if path.name.endswith(".json"):
        return checked(array_rows(path, StrictJson(as_text=True)), path, "row")
    if path.name.endswith(".parquet"):
        return checked(numbered_parquet_rows(path), path, "row")
    raise ConfigError(f"{path}: expected a name that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")


def checked(rows: Iterable[RawRow], path: Path, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with their place ("line 3"; `kind` is "line" or "row"); InputError with the place for one that is none."""
    for raw in rows:
        if raw.value is None:
            raise InputError(f"{path}, {kind} {raw.line}: {raw.problem}")
        yield f"{kind} {raw.line}", raw.value


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
