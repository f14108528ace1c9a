"""Which of the known formats a file is in, from its first rows."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.curate.formats import (
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
from geoalign.lab.tasks.rows import field_of
from geoalign.shown import brief, listed

# Columns of TRL's table that are no reward: the engine's own, and what this package's trainer adds.
_NO_REWARDS = (
    "score", "anomalous", "source", "true_reward", "geoalign_source", "geoalign_weight", "geoalign_advantage",
)  # fmt: skip


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
    known = [one for one in FORMATS.values() if parquet or one not in (GEOALIGN, TRL)]
    counts = [sum(one.fits(row) for row in rows) for one in known]
    best = max(range(len(known)), key=lambda place: counts[place])
    if counts[best]:
        return known[best]
    if fields.get("reward"):
        names = fields.get("response") or ""
        nested = any(isinstance(first_value(row, (names, *RESPONSES.fields["response"])), list) for row in rows)
        return RESPONSES if nested else PLAIN
    raise ConfigError(f"{where}: expected one of the known formats ({_described()}), got {_columns(rows)}; {_HINT}")


_HINT = "name the fields of another one by --field reward=NAME --field prompt=NAME --field response=NAME"


def _resolved(
    where: str, chosen: Format, rows: Sequence[Mapping[str, Any]], fields: Mapping[str, str]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for role in ROLES:
        if role in fields:
            if fields[role]:
                found[role] = fields[role]
            continue
        names = [one for one in chosen.fields.get(role, ()) if any(field_of(row, one) is not None for row in rows)]
        if role == "correct":
            names = [one for one in names if one != found.get("reward") and _are_truths(rows, one)]
        if names:
            found[role] = names[0]
    if chosen is TRL and "reward" not in fields:
        found["reward"] = _trl_reward(where, rows)
    if "group" not in found and not chosen.lists and "prompt" in found:
        found["group"] = found["prompt"]
    return found


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
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    return bool(flat) and all(one is None or (isinstance(one, (bool, int, float)) and one in (0, 1)) for one in flat)


def _trl_reward(where: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The one column of rewards in TRL's table; reward functions stand between `completion` and `advantage`."""
    names = list(rows[0])
    between = names[names.index("completion") + 1 : names.index("advantage")] if "advantage" in names else names
    found = []
    for name in between:
        values = [row.get(name) for row in rows]
        numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        if numbers and len(numbers) + values.count(None) == len(values) and name not in _NO_REWARDS:
            found.append(name)
    if len(found) == 1:
        return found[0]
    expected = "expected one column of rewards between completion and advantage"
    if not found:
        raise ConfigError(f"{where}: reward: {expected}, got {_columns(rows)}; name it by --field reward=NAME")
    raise ConfigError(
        f"{where}: reward: {expected}, got {listed(found)}, which may be rewards or other numbers: "
        f"name those that add up by --field reward={brief('+'.join(found[:2]), 80)}"
    )


def _columns(rows: Sequence[Mapping[str, Any]]) -> str:
    names = sorted({str(name) for row in rows for name in row})
    return f"the fields {listed(names)}" if names else "no field"


def _described() -> str:
    return "; ".join(f"{one.name}: {', '.join(one.columns) or one.title}" for one in FORMATS.values())
