"""Which rewards are verdicts, and which of them accepts."""

from __future__ import annotations

import math
from collections.abc import Collection

# Why nothing is said of verdicts that are all the same, where nothing contradicts them.
ONE_VERDICT = "All rewards are equal."


def verdict_values(values: Collection[float]) -> tuple[float, float] | None:
    """The rewards of a refused and of an accepted response, where rewards of these values are verdicts; else None.

    A lone reward of 1 accepts, and one of 0 or less refuses. What another lone number says, nobody knows.
    """
    if len(values) == 1:
        (value,) = values
        if value == 1:
            return 0.0, 1.0
        return (value, 1.0) if value <= 0 else None
    if len(values) == 2 and are_verdicts(min(values), max(values)):
        return min(values), max(values)
    return None


def are_verdicts(low: float, high: float) -> bool:
    """Whether two rewards are the two verdicts of a verifier, not two of many values that happen to be the only ones.

    Verdicts are 0 and some number, -x and x, 1 and less, or 1 or 2 apart, as with a bonus on both.
    """
    conventional = low == 0 or high == 0 or low == -high or high == 1
    return conventional or any(math.isclose(high - low, gap, rel_tol=1e-6) for gap in (1, 2))


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
