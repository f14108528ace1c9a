"""Whether a validated setting is the value that was given: pydantic reads true as 1, "3" as 3 and 1 as true."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

Loc = tuple[str | int, ...]


def check_exact(title: str, given: Mapping[str, Any], kept: Any) -> None:
    """Raises pydantic's ValidationError for the first value of `given` that `kept` holds as another kind of value."""
    for name, value in given.items():
        for where, expected, got in _altered(value, getattr(kept, name), (name,)):
            error = PydanticCustomError("exact", expected)
            raise ValidationError.from_exception_data(title, [{"type": error, "loc": where, "input": got}])


def strict_json(text: str) -> Any:
    """JSON of which no name stands twice and every number is finite.

    Raises:
        ValueError: it is not.
    """
    try:
        return json.loads(text, object_pairs_hook=_each_once, parse_constant=_not_finite)
    except RecursionError as error:
        raise ValueError("expected JSON of less nesting") from error


def _altered(given: Any, kept: Any, where: Loc) -> Iterable[tuple[Loc, str, Any]]:
    if isinstance(given, Mapping):
        for name, value in given.items():
            if is_dataclass(kept) and hasattr(kept, name):
                yield from _altered(value, getattr(kept, name), (*where, name))
            elif isinstance(kept, Mapping) and name in kept:
                yield from _altered(value, kept[name], (*where, name))
    elif isinstance(given, (list, tuple)) and isinstance(kept, (list, tuple)) and len(given) == len(kept):
        for number, (value, item) in enumerate(zip(given, kept, strict=True)):
            yield from _altered(value, item, (*where, number))
    elif isinstance(kept, bool) != isinstance(given, bool) or (
        isinstance(given, str) and isinstance(kept, (int, float))
    ):
        yield where, _expected(kept), given


def _expected(kept: Any) -> str:
    if isinstance(kept, bool):
        return "expected true or false"
    return "expected a whole number" if isinstance(kept, int) else "expected a number"


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise ValueError(f"expected {name!r:.100} once, got it a second time")
        fields[name] = value
    return fields


def _not_finite(name: str) -> Any:
    raise ValueError(f"expected finite numbers, got {name}")
