"""Rows of other people's data: files (JSONL, also in gzip, JSON, parquet, CSV), data sets on the hub; fields by name.

Neither a line nor what is packed can fill the memory.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from geoalign.errors import ConfigError, InputError
from geoalign.pretrained import quiet_hub, unreachable
from geoalign.text import listed, one_line, quote

# How the name of a file of problems or dialogues may end; a `.json` file is one array of rows.
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".parquet", ".csv")
# How the name of a dump may end; a `.json` file holds lines, as Trinity writes them.
DUMP_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet", ".pt")
TABLES = (".parquet", ".table.json")

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

HUB_FORM = "owner/name[/folder][:config][@split]"
# The groups are named as `load_dataset`'s arguments.
_HUB = re.compile(
    r"(?P<path>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:/(?P<data_dir>[\w.-]+(?:/[\w.-]+)*))?"
    r"(?::(?P<name>[\w.-]+))?(?:@(?P<split>\w+))?",
    re.ASCII,
)
# What is plainly meant as a local file is never looked for on the hub: a typing error costs no network access.
_FILE_ENDINGS = (*SUFFIXES, ".gz", ".tsv", ".txt", ".arrow", ".zip", ".zst", ".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class RawRow:
    """One row of a file: `number` counts rows from 0, `line` lines (of parquet and arrays rows) from 1.

    `value` is None where it is none, as `problem` says; with `rest_lost` nothing behind it can be read.
    """

    number: int
    line: int
    value: dict[str, Any] | None
    problem: str | None = None
    rest_lost: bool = False


_Item = TypeVar("_Item")
Read = Callable[[str, Mapping[str, Any]], _Item]
# So many rows are looked at to recognise a layout.
_HEAD = 100


class LeftOutError(Exception):
    """Why a row of a source is not used."""


def read_sources(
    sources: str | Sequence[str],
    reader_of: Callable[[str, list[dict[str, Any]]], Read[_Item]],
    *,
    wanted: str,
    limit: int | None = None,
) -> tuple[list[_Item], list[str]]:
    """What is made of the rows of each source, at most `limit` of one, and a line on what was left out of each.

    `reader_of` takes a source and its first rows, and gives what reads a row, or raises LeftOutError with the reason.
    Rows are named by their number in the source, and, of several sources, by the source's number.
    """
    given = (sources,) if isinstance(sources, str) else tuple(sources)
    items: list[_Item] = []
    notes = []
    for number, source in enumerate(given, start=1):
        rows = rows_of(source)
        head = list(islice(rows, _HEAD))
        read, prefix = reader_of(source, [row for _, row in head]), "" if len(given) == 1 else f"file {number}, "
        found: list[_Item] = []
        left_out: Counter[str] = Counter()
        row: dict[str, Any] = {}
        for where, row in chain(head, rows):
            if len(found) == limit:
                break
            try:
                found.append(read(prefix + where, row))
            except LeftOutError as error:
                left_out[str(error)] += 1
        count, reasons = left_out.total(), ", ".join(f"{times} {why}" for why, times in sorted(left_out.items()))
        if not found:
            columns = f" with the columns {listed(row)}" if row else ""
            raise InputError(f"{source}: expected at least one {wanted}, got none in {count} rows{columns}: {reasons}")
        if left_out:
            notes.append(f"{source}: {count} of {count + len(found)} rows left out: {reasons}")
        items += found
    return items, notes


def rows_of(source: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row of a source in order, with its number from 1: "line 3"; "row 3" in parquet, JSON and on the hub.

    A local file of this name comes first; a `.json` file is one array of objects. Only where there is none, and the
    text has the form `HUB_FORM`, it is loaded by `datasets.load_dataset`, which keeps it in its cache. A `.csv` file
    has commas and a first line with the names of its columns; every value is a text.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        raise ConfigError(f"{source}: expected a file, got a folder; name a file in it ({', '.join(SUFFIXES)})")
    if not path.is_file():
        return _hub_rows(str(source))
    _check_name(path, "a file", SUFFIXES)
    if is_parquet(path):
        return checked(_parquet_rows(path), path, "row")
    if path.name.endswith(".json"):
        return checked(_json_array(path), path, "row")
    if path.name.endswith(".csv"):
        return checked(_csv_rows(path), path, "row")
    return checked(json_lines(path), path, "line")


def hub_dataset(text: str) -> dict[str, str | None] | None:
    """What `load_dataset` takes for a data set on the hub; None where the text does not have the form of one."""
    match = _HUB.fullmatch(text)
    if match is None or text.endswith(_FILE_ENDINGS) or any(part in (".", "..") for part in text.split("/")):
        return None
    return match.groupdict()


def _hub_rows(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    hub, expected = hub_dataset(source), f"a local file ({', '.join(SUFFIXES)}) or a data set on the hub ({HUB_FORM})"
    if hub is None:
        raise ConfigError(f"{source}: expected {expected}, got no such file and no hub id")
    from datasets import Dataset, load_dataset

    try:
        with quiet_hub():
            loaded: Any = load_dataset(**hub)
    except Exception as error:  # the client of the hub raises dozens of kinds; the message has its text
        said = f"the hub gave {type(error).__name__}: {one_line(error)}"
        why = unreachable(error, str(hub["path"]), kind="dataset")
        got = said if why is None else f"{why} ({said})"
        raise ConfigError(f"{source}: expected {expected}, got no such file, and {got}") from error
    if not isinstance(loaded, Dataset):
        splits = list(loaded)
        if len(splits) != 1:
            raise ConfigError(f"{source}: expected a split, as in {source}@{splits[0]}, got none; it has {splits}")
        loaded = loaded[splits[0]]
    return ((f"row {number}", dict(row)) for number, row in enumerate(loaded, start=1))


def checked(rows: Iterable[RawRow], path: Path, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with their number ("line 3"; `kind` is "line" or "row"); InputError with the number for one that is none."""
    for raw in rows:
        if raw.value is None:
            raise InputError(f"{path}, {kind} {raw.line}: {raw.problem}")
        yield f"{kind} {raw.line}", raw.value


def dump_rows(path: Path) -> Iterator[RawRow]:
    """Every row of a dump, in order; one that cannot be read comes with its problem."""
    check_dump_name(path)
    if path.name.endswith(".pt"):
        return _torch_rows(path)
    if path.name.endswith(".table.json"):
        return _table_rows(path)
    return _parquet_rows(path) if is_parquet(path) else json_lines(path)


def _torch_rows(path: Path) -> Iterator[RawRow]:
    """The samples of a file that slime saved by torch; only tensors and plain values are loaded."""
    import torch

    try:
        samples = list(torch.load(path, map_location="cpu", weights_only=True)["samples"])
    except Exception as error:  # a broken archive fails in many ways
        raise InputError(f"{path}: expected slime's rollouts, saved by torch, got {one_line(repr(error))}") from error
    for number, sample in enumerate(samples):
        whole = sample if isinstance(sample, dict) else None
        yield RawRow(number, number + 1, whole, None if whole is not None else "expected a sample")


def _table_rows(path: Path) -> Iterator[RawRow]:
    """The rows of a table as W&B saves it: one object with `columns` and `data`."""
    try:
        table = strict_json(path.read_bytes())
        rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path}: expected a table of W&B, columns and data, got {one_line(error)}") from error
    yield from (RawRow(number, number + 1, row) for number, row in enumerate(rows))


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
    return f"{path}, {'row' if path.name.endswith(TABLES) else 'line'} {line}"


def strict_json(data: bytes) -> Any:
    """The value of a JSON text in UTF-8; ValueError where it is none, or a key stands twice in one object."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_each_key_once)
    except json.JSONDecodeError as error:
        raise ValueError(f"JSONDecodeError: {error.msg} (column {error.colno})") from error
    except RecursionError as error:
        raise ValueError("values nested too deeply") from error


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {quote(twice)} twice in one object")
    return value


def json_lines(path: Path) -> Iterator[RawRow]:
    """The lines of a file of JSON, empty ones passed over; behind one that cannot be unpacked nothing can be read."""
    number = line = 0
    try:
        for line, data in enumerate(_lines(path), start=1):
            if data.strip():
                yield _row(number, line, data)
                number += 1
    except (OSError, EOFError, zlib.error) as error:
        yield RawRow(number, line + 1, None, f"expected lines of JSON, got {one_line(error)}", rest_lost=True)


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


def _row(number: int, line: int, data: bytes) -> RawRow:
    try:
        value = strict_json(data)
    except ValueError as error:
        return RawRow(number, line, None, f"expected a JSON object, got {one_line(error)}")
    return _object(number, line, value)


def _object(number: int, line: int, value: Any) -> RawRow:
    if isinstance(value, dict):
        return RawRow(number, line, value)
    return RawRow(number, line, None, f"expected a JSON object, got {type(value).__name__}")


def _json_array(path: Path) -> Iterator[RawRow]:
    try:
        entries = strict_json(path.read_bytes().removeprefix(codecs.BOM_UTF8))
        got = type(entries).__name__
    except (ValueError, OSError) as error:
        entries, got = None, one_line(error)
    if not isinstance(entries, list):
        yield RawRow(0, 1, None, f"expected an array of JSON, got {got}", rest_lost=True)
        return
    yield from (_object(number, number + 1, entry) for number, entry in enumerate(entries))


def _csv_rows(path: Path) -> Iterator[RawRow]:
    """The rows of a table with commas, behind a line of column names; behind one that cannot be read nothing can be."""
    number = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            names = next(reader, [])
            twice = [name for name, count in Counter(names).items() if count > 1]
            if twice:
                problem = f"expected columns of different names, got two or more of {listed(twice)}"
                yield RawRow(0, 1, None, problem, rest_lost=True)
                return
            for cells in reader:
                if not cells:
                    continue
                if len(cells) == len(names):
                    yield RawRow(number, number + 1, dict(zip(names, cells, strict=True)))
                else:
                    problem = f"expected {len(names)} values, as the first line has names, got {len(cells)}"
                    yield RawRow(number, number + 1, None, problem)
                number += 1
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        yield RawRow(number, number + 1, None, f"expected a table with commas, got {one_line(error)}", rest_lost=True)


def _most_unpacked(path: Path) -> int:
    return max(UNPACKED_ALWAYS, UNPACKED_TIMES * path.stat().st_size)


def _too_packed(path: Path) -> str:
    return (
        f"more than {_most_unpacked(path) // MEGABYTE:,} MB unpacked from {path.stat().st_size:,} bytes "
        f"(the limit: {UNPACKED_TIMES} times the file, and {UNPACKED_ALWAYS // MEGABYTE} MB at least)"
    )


def _parquet_rows(path: Path) -> Iterator[RawRow]:
    """The rows of a parquet file; behind one that cannot be read nothing can be."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

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
        problem = f"expected a parquet file, got {type(error).__name__}: {one_line(error)}"
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
    """The value of a dotted field name (`prompt.0.content`), a key that holds the dots itself first; None where there
    is none.
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
