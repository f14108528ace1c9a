"""The rollouts in a project's database of trackio: the tables that TRL logs, or else the traces.

After github.com/gradio-app/trackio at 2a02752: trackio/sqlite_storage.py has the tables `metrics`, where a
`trackio.Table` is an object with `_value` inside a JSON text, and `traces`. TRL 1.16 logs its completions as such a
table under `completions`, again for every further update on the same rollouts.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from geoalign.dumps.formats.trackio import FLAGGED
from geoalign.dumps.raw_rows import RawRow
from geoalign.text import listed, one_line

_TABLE = "trackio.table"
# What trackio writes for numbers that JSON does not have.
_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def trackio_rows(path: Path) -> Iterator[RawRow]:
    """Every rollout of a project with one run, in the order in which they were logged."""
    number = 0
    try:
        address = Path(os.path.realpath(path)).as_uri()
        with closing(sqlite3.connect(f"{address}?mode=ro", uri=True)) as database:
            for value in _rollouts(database):
                yield RawRow(number, number + 1, value)
                number += 1
        if not number:
            raise ValueError("one without tables of completions and without traces")
    except (sqlite3.Error, OSError, ValueError, RecursionError) as error:
        problem = f"expected a project of trackio, got {one_line(error)}"
        yield RawRow(number, number + 1, None, problem, rest_lost=True)


def _rollouts(database: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """The rows of the logged tables, each table once; without any, the traces."""
    _check_one_run(database, "metrics")
    seen: set[str] = set()
    for (text,) in database.execute("SELECT metrics FROM metrics ORDER BY id"):
        if _TABLE not in _as_text(text):
            continue
        for value in json.loads(text).values():
            if isinstance(value, dict) and value.get("_type") == _TABLE:
                table = value.get("_value") or []
                content = json.dumps(table, sort_keys=True)
                if content not in seen:
                    seen.add(content)
                    yield from _with_numbers(table)
    if seen:
        return
    _check_one_run(database, "traces")
    traces = database.execute("SELECT * FROM traces WHERE key <> ? ORDER BY timestamp, id", [FLAGGED])
    names = [column[0] for column in traces.description]
    for cells in traces:
        yield dict(zip(names, cells, strict=True))


def _with_numbers(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A table with NaN and infinity as numbers, for which trackio writes words, in columns that hold nothing else."""
    columns: dict[str, list[Any]] = {}
    for row in table:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    numbers = [name for name, values in columns.items() if all(_is_number(value) for value in values)]
    return [
        {name: _NUMBERS.get(value, value) if name in numbers else value for name, value in row.items()} for row in table
    ]


def _is_number(value: Any) -> bool:
    """Whether a cell is a number, a word for one, or missing."""
    if isinstance(value, str):
        return value in _NUMBERS
    return value is None or isinstance(value, (int, float))


def _check_one_run(database: sqlite3.Connection, table: str) -> None:
    """Raises ValueError where a table holds several runs: their steps have the same numbers."""
    runs = [name for (name,) in database.execute(f"SELECT run_name FROM {table} GROUP BY run_id ORDER BY MIN(rowid)")]
    if len(runs) > 1:
        raise ValueError(
            f"{len(runs)} runs ({listed(runs)}): copy the file, and leave one in the copy with "
            f"sqlite3 COPY.db \"delete from {table} where run_name <> 'NAME'\""
        )


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
