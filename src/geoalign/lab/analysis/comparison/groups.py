"""Which arms belong in one table or figure: found from their resolved settings, never from their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geoalign.lab.analysis.comparison.analysis import is_geoalign
from geoalign.lab.analysis.comparison.table import ArmRow
from geoalign.lab.store.comparison_plan import Plan
from geoalign.lab.store.values import number

ALPHA, DEPTH = "alpha", "projector.layers"


@dataclass(frozen=True)
class Variant:
    """An arm of the reference's kind, and in what its settings differ from the reference's, in words."""

    row: ArmRow
    differences: str


@dataclass(frozen=True)
class Sweep:
    """Arms that differ in one setting only, by rising value of it."""

    key: str
    values: tuple[float, ...]
    rows: tuple[ArmRow, ...]


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted key; lists as tuples, so that all values compare and hash."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = tuple(value) if isinstance(value, list) else value
    return found


def reference(rows: Sequence[ArmRow], plan: Plan) -> ArmRow | None:
    """The arm that variants are variants of: GeoAlign in the primary comparison, else the first GeoAlign."""
    found = [row for row in rows if is_geoalign(row) and row.seeds]
    return next((row for row in found if row.role == "primary"), found[0] if found else None)


def sweep(rows: Sequence[ArmRow], key: str, like: ArmRow) -> Sweep | None:
    """The arms of `like`'s kind with its settings in all but `key`; None unless two values of it are there."""
    found: dict[float, ArmRow] = {}
    for row in _same_kind(rows, like):
        mine, theirs = flat(row.settings), flat(like.settings)
        value = number(mine.get(key))
        if value is not None and _without(mine, key) == _without(theirs, key):
            found.setdefault(value, row)
    if len(found) < 2:
        return None
    values = tuple(sorted(found))
    return Sweep(key, values, tuple(found[value] for value in values))


def variants(rows: Sequence[ArmRow], like: ArmRow) -> list[Variant]:
    """The other arms of `like`'s kind with what they change; those that change alpha or the depth alone have their own
    table."""
    found = []
    for row in _same_kind(rows, like):
        changed = differing(row.settings, like.settings)
        if row is not like and changed and set(changed) not in ({ALPHA}, {DEPTH}):
            found.append(Variant(row, ", ".join(f"{key} = {_word(value)}" for key, value in changed.items())))
    return found


def differing(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `mine` that `theirs` has otherwise or not at all; a section that is null stands for its keys."""
    left, right = flat(mine), flat(theirs)
    gone = [key for key, value in left.items() if value is None and any(other.startswith(f"{key}.") for other in right)]
    return {key: value for key, value in left.items() if key in gone or right.get(key, _MISSING) != value}


_MISSING = object()


def _same_kind(rows: Sequence[ArmRow], like: ArmRow) -> list[ArmRow]:
    return [row for row in rows if row.seeds and row.curator == like.curator]


def _without(settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != key}


def _word(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
