"""Columns of the parquet files that this package writes, as arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray

from geoalign.files.durable import write_atomically

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def write_table(path: Path, table: pyarrow.Table, **options: Any) -> None:
    """Writes a parquet file; it is whole or absent."""
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table, sink, compression="zstd", **options)
    write_atomically(path, sink.getvalue().to_pybytes())


def read_columns(path: Path, names: Sequence[str]) -> pyarrow.Table:
    return pyarrow.parquet.ParquetFile(path).read(columns=list(names)).select(list(names))


def batches(path: Path, names: Sequence[str], rows: int = 256) -> Iterator[pyarrow.Table]:
    """The same, some rows at a time, so that a file of any size is read."""
    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=rows, columns=list(names)):
            yield pyarrow.Table.from_batches([batch])


def floats(table: pyarrow.Table, name: str) -> Floats:
    """A column of numbers or booleans, nulls as NaN."""
    values: Floats = table[name].cast(pyarrow.float64()).fill_null(float("nan")).to_numpy().astype(np.float64)
    return values


def ints(table: pyarrow.Table, name: str) -> Ints:
    """A column of whole numbers, nulls as -1."""
    values: Ints = table[name].cast(pyarrow.int64()).fill_null(-1).to_numpy().astype(np.int64)
    return values


def whole_text(text: str) -> str:
    """The text with U+FFFD for each half of a pair of surrogates, which neither parquet nor UTF-8 can hold."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


@dataclass(frozen=True, eq=False)
class Series:
    """A quantity over steps: rising steps without repeats, and its finite values."""

    steps: Ints
    values: Floats

    def __len__(self) -> int:
        return len(self.steps)
