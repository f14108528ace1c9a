"""Values from files, taken for what they should be: a number, a whole number, a share, a text, a mapping, a list."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from geoalign.shown import shown

# Sums, squares and differences of such numbers stay finite; nothing that is logged comes near.
LARGEST = 1e100
# Whole numbers beyond are no longer exact as floats.
LARGEST_WHOLE = 2**53


def number(value: Any) -> float | None:
    """A number of at most 1e100 in size; None for anything else: text, booleans, NaN, infinities, larger ones."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -LARGEST <= value <= LARGEST else None


def whole(value: Any, least: int = 0) -> int | None:
    """A whole number from `least` to 2**53, written with a point or without; None for anything else."""
    value = number(value)
    return int(value) if value is not None and value.is_integer() and least <= value <= LARGEST_WHOLE else None


def the_number(value: Any, name: str) -> float:
    """A number, null as NaN; otherwise TypeError with the name."""
    checked = math.nan if value is None else number(value)
    if checked is None:
        raise TypeError(f"{shown(value)} for {name}, a number up to 1e100")
    return checked


def the_whole(value: Any, name: str, least: int = 0) -> int:
    """A whole number from `least` on; otherwise TypeError with the name."""
    checked = whole(value, least)
    if checked is None:
        raise TypeError(f"{shown(value)} for {name}, a whole number from {least} on")
    return checked


def the_share(value: Any, name: str) -> float:
    """A share from 0 to 1, null as NaN; otherwise TypeError or ValueError with the name."""
    share = the_number(value, name)
    if share < 0 or share > 1:
        raise ValueError(f"{share} for {name}, a share from 0 to 1")
    return share


def the_text(value: Any, name: str) -> str:
    """A text; otherwise TypeError with the name."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} for {name}, a text")
    return value


def the_mapping(value: Any, name: str) -> Mapping[str, Any]:
    """A mapping, null as an empty one; otherwise TypeError with the name."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__} for {name}, a mapping")
    return value or {}


def the_list(value: Any, name: str) -> list[Any]:
    """A list, null as an empty one; otherwise TypeError with the name."""
    if value is not None and not isinstance(value, list):
        raise TypeError(f"{type(value).__name__} for {name}, a list")
    return value or []
