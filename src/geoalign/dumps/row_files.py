"""Files of rows: lines of JSON, one JSON array, CSV, parquet, W&B's tables, slime's samples; packed by gzip or not.

Which of the JSON forms a file has is told by its content, the others by its name. Neither a row nor what is packed can
fill the memory.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geoalign.errors import InputError
from geoalign.text import listed, one_line, quote

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
CSV_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")

MEGABYTE = 2**20
# The longest row of JSON. A row of 64 responses of 32,000 tokens has 8 MB; parsed, a row can take 30 times as much.
LONGEST_ROW = 16 * MEGABYTE
# What may be unpacked of a packed file: so much of any, and so many times its size of a large one. Text packs 3 to 20
# times smaller; gzip packs zeros 1,000 times.
UNPACKED_ALWAYS = 64 * MEGABYTE
UNPACKED_TIMES = 200
# The largest file that is one object around its rows: it is parsed at once, where an array is read piece by piece.
LARGEST_OBJECT = 256 * MEGABYTE
# Rows of parquet that are turned into Python's values at a time, and what each counts at least of what is unpacked.
_ROWS, _ROW_BYTES = 32, 64
# Under these names an object holds the rows of a file.
_ROWS_INSIDE = ("data", "rows", "rollouts", "samples", "results", "records", "examples")
# Spreadsheets write the separator of their country.
_SEPARATORS = ",;\t"
_NO_CSV = (csv.Error, UnicodeDecodeError, OSError, EOFError, zlib.error)


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


class CsvCell(str):
    """A cell of a CSV file, which has no types: whether it is a text or a number, the field that it fills decides."""

    __slots__ = ()


def file_rows(path: Path) -> Iterator[RawRow]:
    """Every row of a file, in order; one that cannot be read comes with its problem."""
    if path.name.endswith(".pt"):
        return _torch_rows(path)
    if path.name.endswith(".table.json"):
        return _table_rows(path)
    if path.name.endswith(".parquet"):
        return _parquet_rows(path)
    if path.name.endswith(CSV_SUFFIXES):
        return csv_rows(path)
    return json_rows(path)


# --- JSON ------------------------------------------------------------------------------------------------------------


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


def json_rows(path: Path) -> Iterator[RawRow]:
    """The rows of a file of JSON: one object a line, one array of objects, or one object that holds such an array."""
    beginning = _beginning(path)
    first, _, others = beginning.partition(b"\n")
    if others.strip() and _is_json(first):
        return json_lines(path)
    if beginning.startswith(b"["):
        return _array_rows(path)
    if beginning.startswith(b"{"):
        inside = _rows_of_object(path)
        if inside is not None:
            return (_object(number, number + 1, value) for number, value in enumerate(inside))
    return json_lines(path)


def _beginning(path: Path) -> bytes:
    """The first line of a file that is not only space, and something of what follows, in at most `LONGEST_ROW` bytes;
    nothing where it cannot be unpacked, which reading it says."""
    data = b""
    try:
        for piece in _pieces(path):
            data = (data + piece).removeprefix(codecs.BOM_UTF8).lstrip()
            first, _, others = data.partition(b"\n")
            if others.strip() or len(data) > LONGEST_ROW or (first == data and data.startswith(b"[")):
                return data
    except (OSError, EOFError, zlib.error):
        return b""
    return data


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


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


def _row(number: int, line: int, data: bytes) -> RawRow:
    try:
        value = strict_json(data)
    except ValueError as error:
        # Only the last line of a file has no end.
        cut = "" if data.endswith(b"\n") else "; the file ends inside this line: is it still being written?"
        return RawRow(number, line, None, f"expected a JSON object, got {one_line(error)}{cut}")
    return _object(number, line, value)


def _object(number: int, line: int, value: Any) -> RawRow:
    if isinstance(value, dict):
        return RawRow(number, line, value)
    return RawRow(number, line, None, f"expected a JSON object, got {type(value).__name__}")


def _array_rows(path: Path) -> Iterator[RawRow]:
    """The entries of a file that is one array of JSON, read piece by piece; behind broken JSON nothing can be read."""
    number = 0
    try:
        for value in _entries(path):
            if isinstance(value, _Refused):
                yield RawRow(number, number + 1, None, f"expected a JSON object, got {value.reason}")
            else:
                yield _object(number, number + 1, value)
            number += 1
    except (OSError, EOFError, zlib.error, ValueError) as error:
        yield RawRow(number, number + 1, None, f"expected an array of JSON, got {one_line(error)}", rest_lost=True)
    except RecursionError:
        problem = "expected an array of JSON, got values nested too deeply"
        yield RawRow(number, number + 1, None, problem, rest_lost=True)


@dataclass(frozen=True)
class _Refused:
    """An entry of an array that is JSON, but not as it should be."""

    reason: str


def _entries(path: Path) -> Iterator[Any]:
    """The entries of an array; ValueError where the text is no array of JSON any more."""
    strict = json.JSONDecoder(object_pairs_hook=_each_key_once)
    lenient = json.JSONDecoder()
    pieces = _pieces(path)
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    text = ""
    lines_before = 0
    ended = False
    opened = False
    separated = True

    while True:
        rest = text.lstrip()
        lines_before += text.count("\n", 0, len(text) - len(rest))
        text = rest
        if opened and not separated and text.startswith(","):
            text = text[1:]
            separated = True
            continue
        if opened and text.startswith("]"):
            _check_nothing_follows(text[1:], pieces, decoder)
            return
        if not opened and text.startswith("["):
            text = text[1:]
            opened = True
            continue
        if opened and text and not separated:
            raise ValueError(f"{quote(text[:1])} behind an entry, instead of a comma (line {lines_before + 1})")

        end = -1
        problem = "nothing: the file ends inside of it"
        if text:
            try:
                _, end = lenient.raw_decode(text)
            except json.JSONDecodeError as error:
                problem = f"JSONDecodeError: {error.msg} (line {lines_before + error.lineno})"
        # An entry that ends with what was read so far may go on behind it.
        if end < 0 or (end == len(text) and not ended):
            if ended:
                raise ValueError(problem)
            if len(text) > LONGEST_ROW:
                raise ValueError(f"an entry of more than {LONGEST_ROW // MEGABYTE} MB, or a broken one: {problem}")
            piece = next(pieces, b"")
            ended = not piece
            text += decoder.decode(piece, final=ended)
            continue
        if end > LONGEST_ROW:
            raise ValueError(f"an entry of more than {LONGEST_ROW // MEGABYTE} MB, the longest that is read")
        try:
            value = strict.raw_decode(text)[0]
        except ValueError as error:
            value = _Refused(str(error))
        yield value
        lines_before += text.count("\n", 0, end)
        text = text[end:]
        separated = False


def _check_nothing_follows(text: str, pieces: Iterator[bytes], decoder: codecs.IncrementalDecoder) -> None:
    """Raises ValueError where more than space follows an array."""
    while not text.strip():
        piece = next(pieces, b"")
        if not piece:
            return
        text = decoder.decode(piece)
    raise ValueError(f"{quote(text.strip()[:20])} behind its end")


def _rows_of_object(path: Path) -> list[Any] | None:
    """The rows inside a file that is one JSON object: a list under a known name, or `columns` and `data`.

    An object that is a row itself, written over several lines, is the only row. None where the file is no such object.
    """
    if path.stat().st_size > LARGEST_OBJECT:
        return None
    try:
        data = b"".join(_pieces(path))
        value = strict_json(data.removeprefix(codecs.BOM_UTF8))
    except (OSError, EOFError, zlib.error, ValueError):
        return None
    if not isinstance(value, dict):
        return None
    columns = value.get("columns")
    entries = value.get("data")
    if isinstance(columns, list) and isinstance(entries, list) and all(isinstance(entry, list) for entry in entries):
        names = [str(name) for name in columns]
        return [
            dict(zip(names, entry, strict=True)) if len(entry) == len(names) == len({*names}) else entry
            for entry in entries
        ]
    for name in _ROWS_INSIDE:
        inner = value.get(name)
        if isinstance(inner, list) and inner and all(isinstance(entry, dict) for entry in inner):
            return inner
    return [value]


# --- CSV -------------------------------------------------------------------------------------------------------------


def csv_rows(path: Path) -> Iterator[RawRow]:
    """The rows below the header of a CSV file in UTF-8; rows without a single cell are passed over.

    A file of tabs ends in .tsv; otherwise the separator is that of `,` `;` and tab which the header has most of.
    """
    number = 0
    line = 1
    header: list[str] | None = None
    try:
        reader = _csv_reader(path)
        for cells in reader:
            place = line
            line = reader.line_num + 1
            if not any(cells):
                continue
            if header is None:
                header = cells
                problem = _problem_of_header(header)
                if problem is not None:
                    yield RawRow(0, place, None, problem, rest_lost=True)
                    return
                continue
            if len(cells) != len(header):
                problem = f"expected {len(header)} cells as in the first line, got {len(cells)}"
                yield RawRow(number, place, None, problem)
            else:
                yield RawRow(number, place, dict(zip(header, map(CsvCell, cells), strict=True)))
            number += 1
    except _NO_CSV as error:
        yield RawRow(number, line, None, f"expected CSV in UTF-8, got {one_line(error)}", rest_lost=True)


def csv_header(path: Path) -> list[str]:
    """The names of a CSV file's columns; InputError where it is none."""
    try:
        for cells in _csv_reader(path):
            if any(cells):
                return cells
    except _NO_CSV as error:
        raise InputError(f"{path}: expected CSV in UTF-8, got {one_line(error)}") from error
    return []


def _csv_reader(path: Path) -> Any:
    # A cell can be a whole response: Python's own limit is 131,072 characters.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_ROW))
    lines = (data.decode("utf-8") for data in _lines(path))
    return csv.reader(lines, delimiter=separator_of(path), strict=True)


def separator_of(path: Path) -> str:
    """What separates the cells of a CSV file."""
    if path.name.endswith((".tsv", ".tsv.gz")):
        return "\t"
    first = next((data for data in _lines(path) if data.strip()), b"")
    return max(_SEPARATORS, key=lambda separator: first.count(separator.encode("ascii")))


def _problem_of_header(header: list[str]) -> str | None:
    twice = [name for name, count in Counter(header).items() if count > 1]
    return f"expected columns of different names, got two or more of {listed(twice)}" if twice else None


# --- the bytes of a file ---------------------------------------------------------------------------------------------


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, unpacked where its name ends in .gz, without byte order marks (files are joined by `cat`).

    In bytes: a text file would also be split at other line ends, which may stand inside JSON strings.
    """
    packed, total = path.name.endswith(".gz"), 0
    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        while data := file.readline(LONGEST_ROW + 1):
            if len(data) > LONGEST_ROW:
                raise OSError(f"a line of more than {LONGEST_ROW // MEGABYTE} MB, the longest that is read")
            if packed and total + len(data) > _most_unpacked(path):
                raise OSError(_too_packed(path))
            yield data.removeprefix(codecs.BOM_UTF8)
            total += len(data)


def _pieces(path: Path) -> Iterator[bytes]:
    """A file in pieces of a megabyte, unpacked where its name ends in .gz."""
    packed, total = path.name.endswith(".gz"), 0
    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        while data := file.read(MEGABYTE):
            total += len(data)
            if packed and total > _most_unpacked(path):
                raise OSError(_too_packed(path))
            yield data


def _most_unpacked(path: Path) -> int:
    return max(UNPACKED_ALWAYS, UNPACKED_TIMES * path.stat().st_size)


def _too_packed(path: Path) -> str:
    return (
        f"more than {_most_unpacked(path) // MEGABYTE:,} MB unpacked from {path.stat().st_size:,} bytes "
        f"(the limit: {UNPACKED_TIMES} times the file, and {UNPACKED_ALWAYS // MEGABYTE} MB at least)"
    )


# --- files of other kinds --------------------------------------------------------------------------------------------


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
