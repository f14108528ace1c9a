"""True rewards that a person filled in: the `flagged.csv` of a curation as it comes back."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from geoalign.errors import ConfigError, InputError
from geoalign.lab.dumps.values import BadValueError, number
from geoalign.lab.store.curation_tables import LABEL, ROW
from geoalign.shown import brief, listed, shown

# Spreadsheets write the separator of their country.
_SEPARATORS = ",;\t"
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True)
class LabelledRow:
    """One row of such a file.

    Attributes:
        place: "flagged.csv, line 3", for messages.
        key: which rollout it is: its step, its line in the dump, its number among the responses to its prompt.
        label: its true reward; None where nobody filled it in.
        cells: the whole row by column.
    """

    place: str
    key: tuple[int, int, int]
    label: float | None
    cells: Mapping[str, str]


def read_labels(path: Path) -> list[LabelledRow]:
    """The rows of a file, with a label or without.

    Raises:
        ConfigError: no such file.
        InputError: no CSV in UTF-8, a missing column, a label that is no number, or a rollout twice; the message has
            the line.
    """
    if not path.is_file():
        raise ConfigError(f"{path}: expected a flagged.csv with labels, got none there")
    found: dict[tuple[int, int, int], LabelledRow] = {}
    for place, cells in _rows(path):
        try:
            step, line, sample = (_whole(name, cells[name]) for name in ROW)
            row = LabelledRow(place, (step, line, sample), _label(cells[LABEL]), cells)
        except BadValueError as error:
            raise InputError(f"{place}: {error}") from None
        if row.key in found:
            raise InputError(f"{place}: expected each rollout once, got the one of {found[row.key].place} again")
        found[row.key] = row
    return list(found.values())


def _rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows below the header, each with its place; rows without a single cell are passed over."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            separator = max(_SEPARATORS, key=file.readline().count)
            file.seek(0)
            reader = csv.reader(file, delimiter=separator, strict=True)
            header = next(reader, [])
            _check_header(path, header)
            line = reader.line_num + 1
            for cells in reader:
                place, line = f"{path}, line {line}", reader.line_num + 1
                if cells and len(cells) != len(header):
                    raise InputError(f"{place}: expected {len(header)} cells as in the first line, got {len(cells)}")
                if any(cells):
                    yield place, dict(zip(header, cells, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: expected CSV in UTF-8, got {brief(error)}") from error


def _check_header(path: Path, header: Sequence[str]) -> None:
    wanted = (*ROW, LABEL)
    counts = Counter(header)
    missing = [name for name in wanted if not counts[name]]
    if missing:
        raise InputError(f"{path}, line 1: expected the columns {', '.join(wanted)}, got {listed(header)}")
    twice = [name for name in header if counts[name] > 1]
    if twice:
        raise InputError(f"{path}, line 1: expected each column once, got {brief(twice[0], 80)} again")


def _whole(name: str, cell: str) -> int:
    if not _WHOLE.fullmatch(cell.strip()):
        raise BadValueError(name, "a whole number", shown(cell, 40))
    return int(cell)


def _label(cell: str) -> float | None:
    text = cell.strip()
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise BadValueError(LABEL, "a number, such as 0 or 0.5, or nothing", shown(cell, 40))
    return number(LABEL, float(text))
