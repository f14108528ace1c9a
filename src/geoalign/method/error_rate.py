"""How many rewards are wrong, from the rewards that identical responses were given."""

from __future__ import annotations

import math


def error_rate(disagreeing: int, pairs: int, *, binary: bool) -> float:
    """The share e of wrong rewards under which so many pairs of identical responses would have different rewards.

    The true reward is taken to be a function of the response, and errors to be independent of each other. Two verdicts
    on one response differ where exactly one is wrong: D = 2 e (1 - e), so e = (1 - sqrt(1 - 2 D)) / 2, at most one
    half. Two continuous rewards of one response differ unless both are right: D = 1 - (1 - e)^2, so
    e = 1 - sqrt(1 - D).

    Args:
        disagreeing: pairs of rows of one response whose rewards differ.
        pairs: all pairs of rows of one response.
        binary: whether rewards have two values.

    Returns:
        The share; NaN without any pair.
    """
    if not pairs:
        return math.nan
    share = disagreeing / pairs
    if binary:
        return (1 - math.sqrt(max(0.0, 1 - 2 * share))) / 2
    return 1 - math.sqrt(1 - share)
