"""A share of a count, as it was written."""

from __future__ import annotations

from fractions import Fraction


def share_of(share: float, count: int) -> int:
    """floor(share * count) for the decimal number that `share` was written as.

    0.29 of 100 is 29; in floating point 0.29 * 100 lies just below.
    """
    return int(Fraction(repr(float(share))) * count)
