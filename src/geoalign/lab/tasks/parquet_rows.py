"""Rows of other people's parquet files: a cell that Python cannot hold spoils itself alone, and no file the memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geoalign.errors import MissingExtraError
from geoalign.lab.tasks.json_rows import most_unpacked, too_packed
from geoalign.shown import brief, listed

if TYPE_CHECKING:
    import pyarrow

# Rows that are turned into Python's values at a time: a few, because texts that repeat are small in the file alone.
_ROWS = 32
# What a row counts at least against what may be unpacked; columns of one value take no room in a file.
_ROW_BYTES = 64


class ParquetError(ValueError):
    """A parquet file whose rows cannot be read (on); the message says what was expected, and what came."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands for a cell that Python cannot hold: a date beyond year 9999, a text that is no UTF-8."""

    text: str

    def __repr__(self) -> str:
        """The text itself, as messages quote it."""
        return self.text


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a parquet file in order; cells that Python cannot hold are `Unreadable`.

    Raises:
        ParquetError: it is none, two columns have one name, it is cut off, or far more is packed in it than it is large
            (`most_unpacked`).
        MissingExtraError: no pyarrow.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise MissingExtraError(f"{path}: reading parquet needs pyarrow: pip install 'geoalign[trl]'") from error
    try:
        with parquet.ParquetFile(path) as file:
            check_columns(file.schema_arrow)
            most, unpacked, rows = most_unpacked(path), 0, 0
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
            if max(file.metadata.num_rows * _ROW_BYTES, *(group.total_byte_size for group in groups), 0) > most:
                raise ParquetError(f"expected a parquet file that fits in memory, got {too_packed(path)}")
            for batch in file.iter_batches(batch_size=_ROWS):
                unpacked += batch.nbytes + _repeated(batch)
                rows += len(batch)
                if unpacked > most:
                    raise ParquetError(f"expected a parquet file that fits in memory, got {too_packed(path)}")
                yield from _values(batch)
            if rows != file.metadata.num_rows:
                raise ParquetError(f"expected the {file.metadata.num_rows} rows that the file declares, got {rows}")
    except (pa.ArrowException, OSError, OverflowError, MemoryError, UnicodeDecodeError) as error:
        raise ParquetError(f"expected a parquet file, got {type(error).__name__}: {brief(error)}") from error


def check_columns(schema: pyarrow.Schema) -> None:
    """Raises ParquetError where two columns have one name: which of them is meant cannot be known."""
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise ParquetError(f"expected columns of different names, got two or more of {listed(twice)}")


def _repeated(batch: pyarrow.RecordBatch) -> int:
    """The bytes of the texts that a batch holds once for many rows."""
    import pyarrow as pa
    import pyarrow.compute as compute

    total = 0
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
            lengths = compute.binary_length(column.dictionary)
            total += compute.sum(lengths.take(column.indices)).as_py() or 0
    return total


def _values(batch: pyarrow.RecordBatch) -> list[dict[str, Any]]:
    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
    except (ArithmeticError, ValueError, TypeError, LookupError, RecursionError):
        columns = {name: [_cell(cell) for cell in batch.column(name)] for name in batch.schema.names}
        return [{name: values[row] for name, values in columns.items()} for row in range(len(batch))]
    return rows


def _cell(cell: pyarrow.Scalar) -> Any:
    try:
        return cell.as_py()
    except (ArithmeticError, ValueError, TypeError, LookupError, RecursionError) as error:
        return Unreadable(f"a {brief(cell.type, 60)} that cannot be read ({brief(error, 100)})")
