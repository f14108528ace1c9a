"""Values from JSON, taken for numbers."""

from __future__ import annotations

import math
from typing import Any

# Sums, squares and differences of such numbers stay finite; nothing that is logged comes near.
LARGEST = 1e100


def number(value: Any) -> float | None:
    """A number of at most 1e100 in size; None for anything else: text, booleans, NaN, infinities, larger ones."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -LARGEST <= value <= LARGEST else None


def float_or_nan(value: Any) -> float:
    """A number as JSON holds it, null as NaN."""
    return math.nan if value is None else float(value)
