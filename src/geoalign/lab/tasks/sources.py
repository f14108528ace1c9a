"""Where rows come from: a local file, or a data set on the Hugging Face hub."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, MissingExtraError
from geoalign.lab.tasks.rows import SUFFIXES, read_rows
from geoalign.shown import brief

Row = tuple[str, dict[str, Any]]

HUB_FORM = "owner/name[/folder][:config][@split]"

_HUB = re.compile(
    r"(?P<id>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:/(?P<folder>[\w.-]+(?:/[\w.-]+)*))?"
    r"(?::(?P<config>[\w.-]+))?(?:@(?P<split>\w+))?",
    re.ASCII,
)
# What is plainly meant as a local file is never looked for on the hub: a typing error costs no network access.
_FILE_ENDINGS = (*SUFFIXES, ".gz", ".csv", ".tsv", ".txt", ".arrow", ".zip", ".zst", ".yaml", ".yml")


@dataclass(frozen=True)
class HubDataset:
    """A data set on the hub: `Anthropic/hh-rlhf/helpful-base@test`, `Hothan/OlympiadBench:OE_TO_maths_en_COMP@train`.

    `folder` is a folder of the data set (`data_dir`), `config` a configuration of it, `split` what is read of it.
    """

    id: str
    folder: str | None = None
    config: str | None = None
    split: str | None = None


def hub_dataset(text: str) -> HubDataset | None:
    """The data set on the hub that a text names; None where it does not have the form of one."""
    match = _HUB.fullmatch(text)
    if match is None or text.endswith(_FILE_ENDINGS) or any(part in (".", "..") for part in text.split("/")):
        return None
    return HubDataset(**match.groupdict())


def rows_of(source: str) -> Iterator[Row]:
    """Every row of a source with its number in it ("line 3", "row 3", counted from 1), in order.

    A local file of this name comes first. Only where there is none, and the text has the form `HUB_FORM`, it is loaded
    by `datasets.load_dataset`, which keeps it in its cache; `HF_HUB_OFFLINE=1` allows the cache alone.
    """
    path = Path(source).expanduser()
    if path.is_file():
        return read_rows(path)
    if path.is_dir():
        raise ConfigError(f"{source}: expected a file, got a folder; name a file in it ({', '.join(SUFFIXES)})")
    hub = hub_dataset(source)
    if hub is None:
        raise ConfigError(
            f"{source}: expected a local file ({', '.join(SUFFIXES)}) or a data set on the hub ({HUB_FORM}), "
            "got no such file and no hub id"
        )
    return _hub_rows(source, hub)


def _hub_rows(source: str, hub: HubDataset) -> Iterator[Row]:
    try:
        from datasets import Dataset, load_dataset
    except ImportError as error:
        raise MissingExtraError(
            f"{source}: there is no such file, and the hub needs datasets: pip install 'geoalign[trl]'"
        ) from error
    try:
        loaded = load_dataset(hub.id, hub.config, data_dir=hub.folder, split=hub.split)
    except Exception as error:  # the client of the hub raises dozens of kinds; the message has its text
        raise ConfigError(_not_loaded(source, error)) from error
    if not isinstance(loaded, Dataset):
        splits = list(loaded)
        if len(splits) != 1:
            raise ConfigError(f"{source}: expected a split, as in {source}@{splits[0]}, got none; it has {splits}")
        loaded = loaded[splits[0]]
    return ((f"row {number}", dict(row)) for number, row in enumerate(loaded, start=1))


def _not_loaded(source: str, error: Exception) -> str:
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    why = " while HF_HUB_OFFLINE forbids the network (only what is in the cache can be read)" if offline else ""
    return (
        f"{source}: expected a local file of that name or a data set on the hub ({HUB_FORM}), got no such file, and "
        f"the hub gave {type(error).__name__}: {brief(error)}{why}"
    )
