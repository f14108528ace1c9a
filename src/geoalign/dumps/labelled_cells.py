"""Rows of a CSV file that a person labelled: which rollout each is of, and whether that is the one it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from geoalign.dumps.csv_rows import csv_header, csv_rows
from geoalign.dumps.files import checked
from geoalign.dumps.flagged_csv import ROW, safe
from geoalign.dumps.values import BadValueError, described, whole_number
from geoalign.errors import InputError
from geoalign.text import listed, quote

# Which rollout a row is of: its step, its line in the dump, its number among the responses to its prompt.
Key = tuple[int, ...]


def labelled_cells(path: Path, *, columns: Sequence[str]) -> Iterator[tuple[Key, str, Mapping[str, str]]]:
    """The rows of a CSV file about rollouts: which rollout each is of, where it stands, and its cells by column.

    Args:
        columns: what its header has to name, `step`, `line` and `sample` among them.

    Raises:
        InputError: it lacks one of these, or a cell that says which rollout a row is of is no whole number.
    """
    header = csv_header(path)
    if not set(columns) <= set(header):
        raise InputError(f"{path}, line 1: expected the columns {', '.join(columns)}, got {listed(header)}")
    for line, cells in checked(csv_rows(path), path, "line"):
        place = f"{path}, {line}"
        yield tuple(whole_number_in(cells, name, place) for name in ROW), place, cells


def whole_number_in(cells: Mapping[str, str], name: str, place: str) -> int:
    """The whole number in a cell; InputError where it is none."""
    try:
        value = whole_number(name, cells[name])
        if value is None:
            raise BadValueError(name, "a whole number", described(cells[name]))
    except BadValueError as error:
        raise InputError(f"{place}: {error}") from None
    return value


def check_is_of(cells: Mapping[str, str], place: str, rollout: str, response: str) -> None:
    """Raises InputError unless the cells of a labelled row, as far as they say, are of this response.

    Args:
        place: where the row stands.
        rollout: where the rollout stands that it is said to be of.
    """
    for name, own in (("response", safe(response)), ("characters", str(len(response)))):
        if name in cells:
            if cells[name].replace("\r\n", "\n") != own:
                raise InputError(
                    f"{place}: {name}: {quote(str(cells[name]), 60)} is not that of {rollout}, "
                    f"{quote(own, 60)}: are the labels of another dump?"
                )
            return
