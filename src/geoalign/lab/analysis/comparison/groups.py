"""Which arms belong in one table or figure: by their resolved settings, never by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geoalign.lab.analysis.comparison.analysis import is_geoalign
from geoalign.lab.analysis.comparison.table import ArmRow
from geoalign.lab.config.compare import CompareConfig
from geoalign.lab.config.layers import flat

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


def comparable(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings by dotted key; lists as tuples, so that all values compare and hash."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in flat(settings).items()}


def reference(rows: Sequence[ArmRow], plan: CompareConfig) -> ArmRow | None:
    """The arm that variants are variants of: GeoAlign in the primary comparison, else the first GeoAlign."""
    candidates = [row for row in rows if is_geoalign(row) and row.seeds]
    return next((row for row in candidates if row.role == "primary"), candidates[0] if candidates else None)


def sweep(rows: Sequence[ArmRow], key: str, like: ArmRow) -> Sweep | None:
    """The arms of `like`'s kind with its settings in all but `key`; None unless two values of it are there."""
    by_value: dict[float, ArmRow] = {}
    for row in _same_kind(rows, like):
        mine, theirs = comparable(row.settings), comparable(like.settings)
        value = mine.get(key)
        if isinstance(value, int | float) and _without(mine, key) == _without(theirs, key):
            by_value.setdefault(float(value), row)
    if len(by_value) < 2:
        return None
    values = tuple(sorted(by_value))
    return Sweep(key, values, tuple(by_value[value] for value in values))


def variants(rows: Sequence[ArmRow], like: ArmRow) -> list[Variant]:
    """The other arms of `like`'s kind with what they change; those that change alpha or the depth alone have their own
    table."""
    changes = [(row, differing(row.settings, like.settings)) for row in _same_kind(rows, like) if row is not like]
    return [
        Variant(row, ", ".join(f"{key} = {_word(value)}" for key, value in changed.items()))
        for row, changed in changes
        if changed and set(changed) not in ({ALPHA}, {DEPTH})
    ]


def differing(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `mine` that `theirs` has otherwise or not at all; a section that is null counts as its keys."""
    left, right = comparable(mine), comparable(theirs)
    gone = [key for key, value in left.items() if value is None and any(other.startswith(f"{key}.") for other in right)]
    return {key: value for key, value in left.items() if key in gone or right.get(key, _MISSING) != value}


_MISSING = object()


def _same_kind(rows: Sequence[ArmRow], like: ArmRow) -> list[ArmRow]:
    return [row for row in rows if row.seeds and row.curator == like.curator]


def _without(settings: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name != key}


def _word(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
