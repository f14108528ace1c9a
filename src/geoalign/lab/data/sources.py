"""Rows of other people's data: files (JSON, CSV, parquet), data sets on the hub; fields by dotted name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
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
