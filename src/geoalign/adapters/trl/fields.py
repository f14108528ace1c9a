"""`rollout_fields`: answers and rewards of other sources, out of dataset columns or the user's functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from geoalign.adapters.step import check_curator
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, InputError

# A dataset column, or a function of this process's input rows (each with prompt, completion and completion_ids).
RolloutField = str | Callable[[list[dict[str, Any]]], Sequence[Any]]

USER_FIELDS = ("answers", "reference_rewards", "true_rewards", "second_rewards")


def check_fields(fields: Mapping[str, RolloutField], session: CurationSession, *, engine: str) -> None:
    """Raises ConfigError unless every field is one that can be given; then `check_curator`."""
    for name, value in fields.items():
        if name not in USER_FIELDS:
            raise ConfigError(f"rollout_fields: expected keys out of {', '.join(USER_FIELDS)}; got {name!r}")
        if not (isinstance(value, str) or callable(value)):
            raise ConfigError(
                f"rollout_fields[{name!r}]: expected a dataset column or a callable, got {type(value).__name__}"
            )
    check_curator(session, fields, engine=engine, how="rollout_fields with {need}=<column or callable>")


def field_values(name: str, field: RolloutField, rows: list[dict[str, Any]]) -> list[Any]:
    """One value per row of this process.

    Raises:
        InputError: a row lacks the column, or a callable returned another number of values.
    """
    if isinstance(field, str):
        for index, row in enumerate(rows):
            if field not in row:
                raise InputError(
                    f"rollout_fields[{name!r}]: expected a dataset column {field!r}, got columns {sorted(row)} "
                    f"in row {index}"
                )
        return [row[field] for row in rows]
    values = list(field(rows))
    if len(values) != len(rows):
        raise InputError(f"rollout_fields[{name!r}]: expected {len(rows)} values from the callable, got {len(values)}")
    return values
