"""How often a right response stands above a wrong one to the same prompt: the one definition of "order".

A group is mixed where it holds right and wrong responses. The order of a mixed group is P(score of a right one > score
of a wrong one), ties counting one half; of several groups it is their mean, every group counting the same. Chance is
one half. What policy gradients learn from a group is which of its responses to prefer, and that is this.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from numpy import asarray, flatnonzero, ndarray, unique

from geoalign.lab.analysis.statistics import auroc


def group_orders(
    scores: Float[ndarray, " b"], right: Bool[ndarray, " b"], groups: Int[ndarray, " b"]
) -> dict[int, float]:
    """The order of every mixed group, by its number; NaN scores are left out, and groups that then are not mixed."""
    orders = {}
    for group in unique(groups):
        rows = flatnonzero(groups == group)
        order = auroc(asarray(scores)[rows], asarray(right)[rows])
        if order == order:
            orders[int(group)] = order
    return orders
