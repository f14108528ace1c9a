"""How well a score ranks marked items above the others: area under the ROC curve, average precision.

numpy only. Rows whose score is NaN are left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def auroc(scores: ArrayLike, positives: ArrayLike) -> float:
    """Chance that a marked item scores higher than an unmarked one, ties counting one half.

    Mann-Whitney: U = (sum of the midranks of the marked) - P (P + 1) / 2, divided by P N. The other direction (low
    scores mean marked) is `auroc` of the negated scores, or 1 minus this.

    Args:
        scores: [n] numbers; NaN items are left out, infinities rank at the ends.
        positives: [n] booleans, True where marked.

    Returns:
        A number in [0, 1]; NaN where no marked or no unmarked item has a score.
    """
    values, marked = _scored(scores, positives)
    number, others = int(marked.sum()), int((~marked).sum())
    if number == 0 or others == 0:
        return float("nan")
    rank_sum = float(midranks(values)[marked].sum())
    return (rank_sum - number * (number + 1) / 2) / (number * others)


def average_precision(scores: ArrayLike, positives: ArrayLike) -> float:
    """Area under the precision-recall curve as a step function: sum over thresholds of (gain in recall) x precision.

    Items of equal score enter together, so their order cannot matter. A score without information gives about the
    share of marked items, not 1/2.

    Args as in `auroc`.

    Returns:
        A number in (0, 1]; NaN where no marked item has a score.
    """
    values, marked = _scored(scores, positives)
    number = int(marked.sum())
    if number == 0:
        return float("nan")
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    last_of_tie = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(ordered) - 1)
    hits = np.cumsum(marked[order])[last_of_tie]
    precision = hits / (last_of_tie + 1)
    gains = np.diff(hits, prepend=0) / number
    return float((gains * precision).sum())


def midranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1; items of equal value share the mean of the ranks they occupy. `values`: [n], no NaN."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def _scored(scores: ArrayLike, positives: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    values = np.asarray(scores, dtype=np.float64)
    marked = np.asarray(positives)
    scored = ~np.isnan(values)
    return values[scored], marked[scored].astype(np.bool_)
