"""Percentile bootstrap over groups, for statistics that are no means of groups."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Int

from geoalign.method.intervals import Interval

DRAWS = 500


def grouped_bootstrap(
    statistic: Callable[[Int[np.ndarray, " n"]], float],
    groups: Int[np.ndarray, " b"],
    *,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """The statistic of all rows, with the percentiles of its values on groups drawn with replacement.

    Args:
        statistic: of rows, given by their indices, repeats included; NaN where it is undefined.
        groups: [B] the group of each row.

    Returns:
        The interval; NaN bounds where the statistic is undefined on all rows or on more than half of the draws.
    """
    estimate = statistic(np.arange(len(groups)))
    members = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    generator = np.random.default_rng(seed)
    values = np.array(
        [
            statistic(np.concatenate([members[index] for index in generator.integers(len(members), size=len(members))]))
            for _ in range(draws if not math.isnan(estimate) else 0)
        ]
    )
    known = values[~np.isnan(values)]
    if len(known) * 2 <= len(values):
        return Interval(estimate, math.nan, math.nan)
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high))
