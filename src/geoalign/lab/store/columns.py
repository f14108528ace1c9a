"""Columns of parquet files as arrays, checked: what cannot be read is refused by file and column, never guessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from geoalign.errors import RunFolderError
from geoalign.lab.store.json_files import present
from geoalign.lab.store.values import LARGEST
from geoalign.shown import brief

# What pyarrow raises on a damaged file; the last where the name of a column is no UTF-8.
_UNREADABLE = (pyarrow.ArrowException, OSError, UnicodeDecodeError)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class CutOffError(RunFolderError):
    """A file that is no whole parquet file, as a kill leaves one; the message names it."""


def schema_of(path: Path, names: Sequence[str]) -> pyarrow.Schema:
    """The columns of a parquet file, which must have these among them.

    Raises:
        CutOffError: it is no whole parquet file.
        RunFolderError: a column is missing or doubled; or there is no file of that name.
    """
    if not present(path):
        raise RunFolderError(f"{path.name}: expected a parquet file, got none in {path.parent}")
    try:
        schema = pyarrow.parquet.read_schema(path)
    except _UNREADABLE as error:
        raise _cut_off(path, error) from error
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise RunFolderError(
            f"columns: expected {', '.join(missing)} as well, got {brief(', '.join(schema.names), 120)} in {path}"
        )
    doubled = [name for name in names if schema.names.count(name) > 1]
    if doubled:
        raise RunFolderError(f"columns: expected one {doubled[0]}, got several in {path}")
    return schema


def read_columns(path: Path, names: Sequence[str]) -> pyarrow.Table:
    """These columns of a file, which `schema_of` has checked.

    Raises:
        CutOffError: the file is no whole parquet file.
    """
    try:
        return pyarrow.parquet.ParquetFile(path).read(columns=list(names))
    except _UNREADABLE as error:
        raise _cut_off(path, error) from error


def batches(path: Path, names: Sequence[str], rows: int = 256) -> Iterator[pyarrow.Table]:
    """The same, some rows at a time, so that a file of any size is read."""
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=rows, columns=list(names)):
                yield pyarrow.Table.from_batches([batch])
    except _UNREADABLE as error:
        raise _cut_off(path, error) from error


def require_texts(schema: pyarrow.Schema, names: Sequence[str], path: Path) -> None:
    """Raises RunFolderError unless these columns hold texts."""
    is_a = pyarrow.types
    for name in names:
        kind = schema.field(name).type
        kind = kind.value_type if is_a.is_dictionary(kind) else kind
        if not any(test(kind) for test in (is_a.is_string, is_a.is_large_string, is_a.is_null)):
            raise RunFolderError(f"{name}: expected texts, got {brief(str(kind))} in {path}")


def floats(table: pyarrow.Table, name: str, path: Path, notes: list[str]) -> Floats:
    """A column of numbers or booleans, nulls as NaN; so are infinities and numbers beyond 1e100, which are noted.

    Raises:
        RunFolderError: a column of another type.
    """
    values: Floats = (
        _numbers(table, name, path, pyarrow.float64()).fill_null(float("nan")).to_numpy().astype(np.float64)
    )
    wild = ~np.isnan(values) & ~(np.abs(values) <= LARGEST)
    if wild.any():
        notes.append(f"{path.name}: {int(wild.sum())} values of {name} are beyond 1e100 or infinite and are left out")
        values = np.where(wild, np.nan, values)
    return values


def ints(table: pyarrow.Table, name: str, path: Path, *, null: int | None = None, least: int | None = None) -> Ints:
    """A column of whole numbers; `null` replaces nulls.

    Raises:
        RunFolderError: a column of another type, a number with a fraction, one below `least`, or a null where `null` is
            None.
    """
    column = _numbers(table, name, path, pyarrow.int64())
    if null is None and column.null_count:
        raise RunFolderError(f"{name}: expected a number in every row, got {column.null_count} nulls in {path}")
    values: Ints = (column if null is None else column.fill_null(null)).to_numpy().astype(np.int64)
    wrong = np.flatnonzero(values < (np.iinfo(np.int64).min if least is None else least))
    if len(wrong):
        raise RunFolderError(
            f"{name}: expected numbers from {least} on, got {values[wrong[0]]} in row {wrong[0]} of {path}"
        )
    return values


def texts(table: pyarrow.Table, name: str) -> pyarrow.ChunkedArray:
    """A column of texts as bytes, which need not be UTF-8: `decoded` makes texts of them."""
    column = table[name]
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pyarrow.large_binary())


def decoded(data: bytes | None) -> str:
    """A text of a column, null as an empty one: lone surrogates are kept, other bytes that are no UTF-8 are shown as
    escapes."""
    if data is None:
        return ""
    try:
        return data.decode("utf-8", errors="surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", errors="backslashreplace")


def whole_text(text: str) -> str:
    """The text with U+FFFD for each half of a pair of surrogates, which neither parquet nor UTF-8 can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text)
    return text


def _numbers(table: pyarrow.Table, name: str, path: Path, kind: pyarrow.DataType) -> pyarrow.ChunkedArray:
    column, is_a = table[name], pyarrow.types
    known = (is_a.is_integer, is_a.is_floating, is_a.is_boolean, is_a.is_null)
    try:
        if any(test(column.type) for test in known):
            return column.cast(kind)
        problem = str(column.type)
    except pyarrow.ArrowException as error:
        problem = str(error)
    wanted = "whole numbers" if kind == pyarrow.int64() else "numbers"
    raise RunFolderError(f"{name}: expected {wanted}, got {brief(problem)} in {path}")


def _cut_off(path: Path, error: Exception) -> CutOffError:
    return CutOffError(f"{path.name}: expected a whole parquet file, got {brief(error, 120)} in {path.parent}")
