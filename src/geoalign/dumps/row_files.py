"""Files of rows by their names: JSON, CSV, parquet, samples saved by torch, logs and databases; packed or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from geoalign.dumps.csv_rows import csv_rows, repeated_names
from geoalign.dumps.eval_logs import eval_rows
from geoalign.dumps.json_rows import json_rows
from geoalign.dumps.prime_rl import is_stream_file, stream_rows
from geoalign.dumps.raw_rows import RawRow, most_unpacked, too_packed
from geoalign.dumps.trackio_rows import trackio_rows
from geoalign.errors import InputError
from geoalign.text import one_line

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz", ".jsonl.zst")
CSV_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
# Rows of parquet that are turned into Python's values at a time, and the least that a row counts as unpacked.
_ROWS_AT_A_TIME = 32
_LEAST_ROW_BYTES = 64


def file_rows(path: Path) -> Iterator[RawRow]:
    """Every row of a file, or of a stream of prime-rl, in order; one that cannot be read comes with its problem."""
    if path.is_dir() or is_stream_file(path):
        return stream_rows(path)
    if path.name.endswith(".pt"):
        return _torch_rows(path)
    if path.name.endswith(".parquet"):
        return _parquet_rows(path)
    if path.name.endswith(CSV_SUFFIXES):
        return csv_rows(path)
    if path.name.endswith(".eval"):
        return eval_rows(path)
    if path.name.endswith(".db"):
        return trackio_rows(path)
    return json_rows(path)


def _torch_rows(path: Path) -> Iterator[RawRow]:
    """The samples of a file that slime saved by torch; only tensors and plain values are loaded."""
    import torch

    try:
        samples = list(torch.load(path, map_location="cpu", weights_only=True)["samples"])
    except Exception as error:  # a broken archive fails in many ways
        raise InputError(f"{path}: expected slime's rollouts, saved by torch, got {one_line(repr(error))}") from error
    for number, sample in enumerate(samples):
        if isinstance(sample, dict):
            yield RawRow(number, number + 1, sample)
        else:
            yield RawRow(number, number + 1, None, "expected a sample")


def _parquet_rows(path: Path) -> Iterator[RawRow]:
    """The rows of a parquet file; behind one that cannot be read nothing can be."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            problem = _refusal(path, file)
            if problem is None:
                for batch in file.iter_batches(batch_size=_ROWS_AT_A_TIME):
                    for value in batch.to_pylist():
                        yield RawRow(number, number + 1, value)
                        number += 1
                if number != file.metadata.num_rows:
                    problem = f"expected the {file.metadata.num_rows} rows that the file declares, got {number}"
    except (pa.ArrowException, OSError, ArithmeticError, MemoryError, ValueError, TypeError, LookupError) as error:
        problem = f"expected a parquet file, got {type(error).__name__}: {one_line(error)}"
    if problem is not None:
        yield RawRow(number, number + 1, None, problem, rest_lost=True)


def _refusal(path: Path, file: Any) -> str | None:
    """Why a parquet file is not read: two columns of one name, or far more in it than it is large."""
    repeated = repeated_names(file.schema_arrow.names)
    if repeated is not None:
        return repeated
    row_groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    declared_bytes = sum(row_group.total_byte_size for row_group in row_groups)
    if max(declared_bytes, _LEAST_ROW_BYTES * file.metadata.num_rows) > most_unpacked(path):
        return f"expected a parquet file that fits in memory, got {too_packed(path)}"
    return None
