"""How a file of rollouts is read, from its first rows: its format, and the name under which it has each role."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, InputError
from geoalign.lab.dumps.formats import (
    FORMATS,
    GEOALIGN,
    NEEDED,
    PLAIN,
    RESPONSES,
    ROLES,
    TRL,
    Format,
    Layout,
    first_value,
)
from geoalign.lab.dumps.rows import step_of
from geoalign.lab.dumps.values import BadValueError
from geoalign.lab.tasks.json_rows import RawRow
from geoalign.lab.tasks.rows import check_dump_name, dump_rows, field_of, is_parquet, row_name
from geoalign.shown import brief, listed

# Rows that a format is recognised by.
_FIRST_ROWS, _FIRST_BYTES = 20, 2**23
# Columns of TRL's table that are no reward: the engine's own, and what this package's trainer adds.
_NO_REWARDS = ("score", "anomalous", "source", "true_reward")
_HINT = "name the fields of another one by --field reward=NAME --field prompt=NAME --field response=NAME"


def find_layout(path: Path, *, name: str | None, fields: Mapping[str, str]) -> tuple[Layout, int | None]:
    """How a file is to be read, from its first rows, and the step that its first rollout names.

    Raises:
        ConfigError: no such file, or none of the formats fits.
        InputError: not one readable row at its beginning; the message has the line.
    """
    check_dump_name(path)
    first = _first_rows(path)
    rows = [row.value for row in first if row.value is not None]
    if not rows:
        if not first:
            raise InputError(f"{path}: expected at least one rollout, got an empty file")
        hint = "" if is_parquet(path) else ": a dump has one object a line"
        raise InputError(f"{row_name(path, first[0].line)}: {first[0].problem}{hint}")
    layout = recognise(str(path), rows, name=name, fields=fields, parquet=is_parquet(path))
    try:
        return layout, step_of(layout, rows[0])
    except BadValueError:
        return layout, None


def _first_rows(path: Path) -> list[RawRow]:
    """The rows that a format is recognised by: fewer where they are long."""
    rows: list[RawRow] = []
    length = 0
    for raw in islice(dump_rows(path), _FIRST_ROWS):
        if rows and length + len(raw.data) > _FIRST_BYTES:
            break
        rows.append(raw)
        length += len(raw.data)
    return rows


def recognise(
    where: str, rows: Sequence[Mapping[str, Any]], *, name: str | None, fields: Mapping[str, str], parquet: bool
) -> Layout:
    """How to read a file, from its first rows.

    Args:
        where: the file, for errors.
        rows: its first rows.
        name: the format, where the user names it; None: the one that fits most rows.
        fields: what the user says of roles; they come before the format's own names.
        parquet: only parquet files hold TRL's tables and the rollouts of runs.

    Raises:
        ConfigError: an unknown name, no format fits, or the file lacks a field that a curation needs.
    """
    if name is not None and name not in FORMATS:
        near = difflib.get_close_matches(name, FORMATS, n=1)
        hint = f" (nearest: {near[0]})" if near else ""
        raise ConfigError(f"--format: expected one of {', '.join(FORMATS)}{hint}; got {name!r}")
    chosen = FORMATS[name] if name is not None else _fitting(where, rows, fields, parquet)
    layout = Layout(chosen, _resolved(where, chosen, rows, fields))
    _check(where, layout, rows)
    return layout


def _fitting(where: str, rows: Sequence[Mapping[str, Any]], fields: Mapping[str, str], parquet: bool) -> Format:
    known = [candidate for candidate in FORMATS.values() if parquet or candidate not in (GEOALIGN, TRL)]
    counts = [sum(candidate.fits(row) for row in rows) for candidate in known]
    best = max(range(len(known)), key=lambda number: counts[number])
    if counts[best]:
        return known[best]
    if fields.get("reward"):
        names = fields.get("response") or ""
        nested = any(isinstance(first_value(row, (names, *RESPONSES.fields["response"])), list) for row in rows)
        return RESPONSES if nested else PLAIN
    raise ConfigError(f"{where}: expected one of the known formats ({_described()}), got {_columns(rows)}; {_HINT}")


def _resolved(
    where: str, chosen: Format, rows: Sequence[Mapping[str, Any]], fields: Mapping[str, str]
) -> dict[str, str]:
    resolved: dict[str, str] = {}
    for role in ROLES:
        if role in fields:
            if fields[role]:
                resolved[role] = fields[role]
            continue
        names = [name for name in chosen.fields.get(role, ()) if any(field_of(row, name) is not None for row in rows)]
        if role == "correct":
            names = [name for name in names if name != resolved.get("reward") and _are_truths(rows, name)]
        if names:
            resolved[role] = names[0]
    if chosen is TRL and "reward" not in fields:
        resolved["reward"] = _trl_reward(where, rows)
    if "group" not in resolved and not chosen.lists and "prompt" in resolved:
        resolved["group"] = resolved["prompt"]
    return resolved


def _check(where: str, layout: Layout, rows: Sequence[Mapping[str, Any]]) -> None:
    missing = [role for role in ("reward", "response") if role not in layout.fields]
    if layout.format is PLAIN:
        missing = [role for role in missing if role == "reward"]
    if not layout.format.lists and "group" not in layout.fields:
        missing.append("prompt")
    named = {role: name for role, name in layout.fields.items() if role in NEEDED}
    absent = {
        role: part
        for role, name in named.items()
        for part in (name.split("+") if role == "reward" else [name])
        if not any(_has(row, part.strip()) for row in rows)
    }
    if layout.format.reward_may_lack:
        absent.pop("reward", None)
    for role, name in absent.items():
        raise ConfigError(f"{where}: {role}: expected a field {name.strip()!r}, got {_columns(rows)}")
    if missing:
        raise ConfigError(
            f"{where}: {', '.join(missing)}: expected in the format {layout.format.name}, got {_columns(rows)}; {_HINT}"
        )


def _has(row: Mapping[str, Any], name: str) -> bool:
    return name in row or field_of(row, name) is not None


def _are_truths(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    values = [value for row in rows if (value := field_of(row, name)) is not None]
    flat = [entry for value in values for entry in (value if isinstance(value, list) else [value])]
    return bool(flat) and all(
        entry is None or (isinstance(entry, (bool, int, float)) and entry in (0, 1)) for entry in flat
    )


def _trl_reward(where: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The one column of rewards in TRL's table; reward functions stand between `completion` and `advantage`."""
    names = list(rows[0])
    between = names[names.index("completion") + 1 : names.index("advantage")] if "advantage" in names else names
    columns = []
    for name in between:
        values = [row.get(name) for row in rows]
        numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        if numbers and len(numbers) + values.count(None) == len(values) and name not in _NO_REWARDS:
            columns.append(name)
    if len(columns) == 1:
        return columns[0]
    expected = "expected one column of rewards between completion and advantage"
    if not columns:
        raise ConfigError(f"{where}: reward: {expected}, got {_columns(rows)}; name it by --field reward=NAME")
    raise ConfigError(
        f"{where}: reward: {expected}, got {listed(columns)}, which may be rewards or other numbers: "
        f"name those that add up by --field reward={brief('+'.join(columns[:2]), 80)}"
    )


def _columns(rows: Sequence[Mapping[str, Any]]) -> str:
    names = sorted({str(name) for row in rows for name in row})
    return f"the fields {listed(names)}" if names else "no field"


def _described() -> str:
    return "; ".join(f"{kind.name}: {', '.join(kind.columns) or kind.title}" for kind in FORMATS.values())
