"""Rows of CSV: UTF-8 with a header, separated by commas, semicolons or tabs."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from geoalign.dumps.raw_rows import LONGEST_ROW, UNREADABLE, CsvCell, RawRow, lines_of, what_came
from geoalign.errors import InputError
from geoalign.text import listed

# Spreadsheets write the separator of their country.
_SEPARATORS = ",;\t"
_NO_CSV = (csv.Error, UnicodeDecodeError, *UNREADABLE)


def csv_rows(path: Path) -> Iterator[RawRow]:
    """The rows below the header of a CSV file; rows without a single cell are passed over.

    The line of a row is the one in which it begins, for cells may hold line ends.
    """
    number = 0
    line = 1
    header: list[str] | None = None
    try:
        reader = _reader(path)
        for cells in reader:
            begins_on = line
            line = reader.line_num + 1
            if not any(cells):
                continue
            if header is None:
                header = cells
                repeated = repeated_names(header)
                if repeated is not None:
                    yield RawRow(0, begins_on, None, repeated, rest_lost=True)
                    return
                continue
            if len(cells) == len(header):
                yield RawRow(number, begins_on, dict(zip(header, map(CsvCell, cells), strict=True)))
            else:
                problem = f"expected {len(header)} cells as in the first line, got {len(cells)}"
                yield RawRow(number, begins_on, None, problem)
            number += 1
    except _NO_CSV as error:
        yield RawRow(number, line, None, f"expected CSV in UTF-8, got {what_came(error)}", rest_lost=True)


def csv_header(path: Path) -> list[str]:
    """The names of a CSV file's columns; InputError where it is none."""
    try:
        for cells in _reader(path):
            if any(cells):
                return cells
    except _NO_CSV as error:
        raise InputError(f"{path}: expected CSV in UTF-8, got {what_came(error)}") from error
    return []


def repeated_names(names: list[str]) -> str | None:
    """What is wrong with columns of which several have one name; None where each has its own."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    return f"expected columns of different names, got two or more of {listed(repeated)}" if repeated else None


def _reader(path: Path) -> Any:
    # A cell can be a whole response: Python's own limit is 131,072 characters.
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_ROW))
    lines = (line.decode("utf-8") for line in lines_of(path))
    return csv.reader(lines, delimiter=_separator(path), strict=True)


def _separator(path: Path) -> str:
    """A tab where the file's name says so, otherwise the separator that its first line has most of."""
    if path.name.endswith((".tsv", ".tsv.gz")):
        return "\t"
    first = next((line for line in lines_of(path) if line.strip()), b"")
    return max(_SEPARATORS, key=lambda separator: first.count(separator.encode("ascii")))
