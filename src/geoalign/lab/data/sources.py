"""Rows of other people's data: files (JSON, CSV, parquet) and data sets on the hub."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from geoalign.dumps.files import SUFFIXES, check_name, checked
from geoalign.dumps.row_files import file_rows
from geoalign.dumps.row_names import counted_in
from geoalign.errors import ConfigError, InputError
from geoalign.pretrained.from_pretrained import quiet_hub, unreachable
from geoalign.text import listed, one_line

HUB_FORM = "owner/name[/folder][:config][@split]"
# The groups are named as `load_dataset`'s arguments.
_HUB = re.compile(
    r"(?P<path>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:/(?P<data_dir>[\w.-]+(?:/[\w.-]+)*))?"
    r"(?::(?P<name>[\w.-]+))?(?:@(?P<split>\w+))?",
    re.ASCII,
)
# What is plainly meant as a local file is never looked for on the hub: a typing error costs no network access.
_FILE_ENDINGS = (*SUFFIXES, ".gz", ".txt", ".arrow", ".zip", ".zst", ".yaml", ".yml")
# Rows that are read to recognise a layout.
_HEAD = 100

_Item = TypeVar("_Item")
# A row with its name in its file, such as "line 3".
NamedRow = tuple[str, dict[str, Any]]


class LeftOutError(Exception):
    """Why a row of a source, or a prompt of a set, is not used."""


def open_sources(sources: str | Sequence[str]) -> Iterator[tuple[str, Iterator[NamedRow]]]:
    """Each source with its rows; from the second source on the names of rows begin with the source's number.

    Those of the first one stay as they are, so that they are the same rows once another source has been added.
    """
    several = [sources] if isinstance(sources, str) else sources
    for number, source in enumerate(several, start=1):
        rows = rows_of(source)
        yield source, rows if number == 1 else _numbered(rows, number)


def _numbered(rows: Iterable[NamedRow], number: int) -> Iterator[NamedRow]:
    for where, row in rows:
        yield f"file {number}, {where}", row


def first_rows(rows: Iterator[NamedRow]) -> tuple[list[dict[str, Any]], Iterator[NamedRow]]:
    """The first rows, by which a layout is recognised, and an iterator over all rows, the first ones included."""
    head = list(islice(rows, _HEAD))
    return [row for _, row in head], chain(head, rows)


def usable_rows(
    source: str,
    rows: Iterable[NamedRow],
    read: Callable[[str, Mapping[str, Any]], _Item],
    *,
    wanted: str,
    limit: int | None = None,
) -> tuple[list[_Item], list[str]]:
    """What `read` makes of the rows of a source, and a line on the rows that it left out (none where it took all).

    Args:
        read: takes a row with its name, and raises LeftOutError with the reason where the row cannot be used.
        wanted: what is read, for the error.
        limit: the most usable rows to take, from the first on.

    Raises:
        InputError: no row can be used.
    """
    items: list[_Item] = []
    left_out: Counter[str] = Counter()
    columns: Mapping[str, Any] = {}
    for where, row in rows:
        if len(items) == limit:
            break
        columns = row
        try:
            items.append(read(where, row))
        except LeftOutError as error:
            left_out[str(error)] += 1
    count = left_out.total()
    reasons = ", ".join(f"{times} {why}" for why, times in sorted(left_out.items()))
    if not items:
        with_columns = f" with the columns {listed(columns)}" if columns else ""
        raise InputError(f"{source}: expected at least one {wanted}, got none in {count} rows{with_columns}: {reasons}")
    if not left_out:
        return items, []
    return items, [f"{source}: {count} of {count + len(items)} rows left out: {reasons}"]


def rows_of(source: str | Path) -> Iterator[NamedRow]:
    """Every row of a source in order, with its number from 1: "line 3"; "row 3" in parquet, JSON and on the hub.

    A local file of this name comes first. Only where there is none, and the
    text has the form `HUB_FORM`, it is loaded by `datasets.load_dataset`, which keeps it in its cache.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        raise ConfigError(f"{source}: expected a file, got a folder; name a file in it ({', '.join(SUFFIXES)})")
    if not path.is_file():
        return _hub_rows(str(source))
    check_name(path, "a file", SUFFIXES)
    return checked(file_rows(path), path, counted_in(path))


def hub_dataset(text: str) -> dict[str, str | None] | None:
    """What `load_dataset` takes for a data set on the hub; None where the text does not have the form of one."""
    match = _HUB.fullmatch(text)
    if match is None or text.endswith(_FILE_ENDINGS) or any(part in (".", "..") for part in text.split("/")):
        return None
    return match.groupdict()


def _hub_rows(source: str) -> Iterator[NamedRow]:
    expected = f"a local file ({', '.join(SUFFIXES)}) or a data set on the hub ({HUB_FORM})"
    hub = hub_dataset(source)
    if hub is None:
        raise ConfigError(f"{source}: expected {expected}, got no such file and no hub id")
    from datasets import Dataset, load_dataset

    try:
        with quiet_hub():
            loaded: Any = load_dataset(**hub)
    except Exception as error:  # the client of the hub raises dozens of kinds; the message has its text
        got = f"the hub gave {type(error).__name__}: {one_line(error)}"
        why = unreachable(error, str(hub["path"]), kind="dataset")
        if why is not None:
            got = f"{why} ({got})"
        raise ConfigError(f"{source}: expected {expected}, got no such file, and {got}") from error
    if not isinstance(loaded, Dataset):
        splits = list(loaded)
        if len(splits) != 1:
            raise ConfigError(f"{source}: expected a split, as in {source}@{splits[0]}, got none; it has {splits}")
        loaded = loaded[splits[0]]
    return ((f"row {number}", dict(row)) for number, row in enumerate(loaded, start=1))
