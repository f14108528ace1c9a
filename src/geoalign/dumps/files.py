"""Files of rows by their names: which endings are read, and how a row that cannot be read is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from geoalign.dumps.prime_rl import is_stream
from geoalign.dumps.raw_rows import RawRow
from geoalign.dumps.row_files import CSV_SUFFIXES, JSON_SUFFIXES, file_rows
from geoalign.errors import ConfigError, InputError

# How the name of a file of problems or dialogues may end, and that of a dump.
SUFFIXES = (*JSON_SUFFIXES, *CSV_SUFFIXES, ".parquet")
DUMP_SUFFIXES = (*SUFFIXES, ".pt", ".eval", ".db")


def checked(rows: Iterable[RawRow], path: Path, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with their number ("line 3"; `kind` is "line" or "row"); InputError with the number for one that is none."""
    for raw in rows:
        if raw.value is None:
            raise InputError(f"{path}, {kind} {raw.line}: {raw.problem}")
        yield f"{kind} {raw.line}", raw.value


def dump_rows(path: Path) -> Iterator[RawRow]:
    """Every row of a dump, in order; one that cannot be read comes with its problem."""
    check_dump_name(path)
    return file_rows(path)


def check_dump_name(path: Path) -> None:
    """Raises ConfigError unless there is a file whose name says what it holds, or the folder of a stream."""
    if is_stream(path):
        return
    check_name(path, "a file of rollouts", DUMP_SUFFIXES)


def check_name(path: Path, kind: str, suffixes: Sequence[str]) -> None:
    """Raises ConfigError unless there is such a file, `kind` in words, whose name has one of these endings."""
    if not path.is_file():
        raise ConfigError(f"{path}: expected {kind}, got none there")
    if not path.name.endswith(tuple(suffixes)):
        raise ConfigError(f"{path}: expected a name that ends in {', '.join(suffixes[:-1])} or {suffixes[-1]}")
