"""`rollout_fields`: answers and rewards of other sources, out of dataset columns or the user's functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

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


def as_answers(values: list[Any]) -> list[str | None]:
    """The values as answers: text, or None where a response gives none."""
    return [None if value is None else str(value) for value in values]


def as_floats(name: str, values: list[Any], device: torch.device) -> Tensor:
    """The values as float32: [B], or [B, M] where each is a list; None becomes NaN.

    Raises:
        InputError: a value is no number, or the lists differ in length; the message names the field.
    """
    try:
        return torch.tensor([_number_or_numbers(value) for value in values], dtype=torch.float32, device=device)
    except (TypeError, ValueError) as error:
        raise InputError(f"rollout_fields[{name!r}]: expected numbers, one or equally many per row: {error}") from error


def _number_or_numbers(value: Any) -> Any:
    if value is None:
        return float("nan")
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [_number_or_numbers(item) for item in value]
    return float(value)
