"""Which rewards are verdicts, and which of them accepts."""

from __future__ import annotations

import math
from collections.abc import Collection

# Two numbers are equal here if they differ by so small a share of the larger reward: a sum of reward functions is
# rounded, in float32 to seven digits.
_ROUNDING = 1e-6

# Why nothing is said of verdicts that are all the same, where nothing contradicts them.
ONE_VERDICT = "All rewards are equal."


def verdict_values(values: Collection[float]) -> tuple[float, float] | None:
    """The rewards of a refused and of an accepted response, where rewards of these values are verdicts; else None.

    A lone reward of 1 accepts, and one of 0 or less refuses. What another lone number says, nobody knows.
    """
    if len(values) == 1:
        (value,) = values
        if math.isclose(value, 1, rel_tol=_ROUNDING):
            return 0.0, value
        return (value, 1.0) if value <= 0 else None
    if len(values) == 2 and are_verdicts(min(values), max(values)):
        return min(values), max(values)
    return None


def are_verdicts(low: float, high: float) -> bool:
    """Whether two rewards are the two verdicts of a verifier, not two of many values that happen to be the only ones.

    Verdicts are 0 and some number, -x and x, 1 and less, or 1 or 2 apart, as with a bonus on both; but for rounding.
    """
    rounding = _ROUNDING * max(abs(low), abs(high))
    one_is_zero = min(abs(low), abs(high)) <= rounding
    are_opposite = abs(low + high) <= rounding
    highest_is_one = abs(high - 1) <= rounding
    gap_is_whole = any(math.isclose(high - low, gap, rel_tol=_ROUNDING) for gap in (1, 2))
    return one_is_zero or are_opposite or highest_is_one or gap_is_whole


def why_no_verdicts(values: Collection[float]) -> str | None:
    """Why rewards of these values say nothing of a verifier; None where they may."""
    if verdict_values(values) is not None:
        return None
    if not values:
        return "No rollout has a reward."
    if len(values) == 1:
        return f"All rewards are {min(values):g}, which is no verdict such as 0 or 1."
    if len(values) > 2:
        return "The rewards are scores: they take more than two values."
    return f"The two rewards, {min(values):g} and {max(values):g}, are not verdicts such as 0 and 1."
