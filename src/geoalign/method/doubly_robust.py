"""Denoised rewards in which what the prediction misses of the true reward counts as much as what it knows.

With m(z) the reward expected by the prediction z and p the probability that the observed one, y, was kept,
E[t | y, z] = m(z) + p (y - m(z)) shrinks what m(z) misses of the true reward t, and what it knows not at all. A policy
that is given such rewards follows first what is easiest to predict, which need not be what is right. The shrinkage is
the slope of least squares of the second part on what it stands for,

    r = E[p (y - m)(t - m)] / E[(t - m)^2] = E[p] E[p^2 (y - m)^2] / E[p (y - m)^2],

a kept reward being t, and a replaced one without regard for it. Divided by it, the rewards are doubly robust (augmented
inverse probability weighting: Robins, Rotnitzky and Zhao 1994; for policies Dudik, Langford and Li 2011):

    t' = m(z) + p (y - m(z)) / r.

They have more variance than the expectation and less bias: over many updates the one averages out, the other adds up.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.method.replaced_rewards import Claims, Replaced

# Bounds the factor 1 / r: with less there is hardly anything but the prediction.
_LEAST_RECOVERED = 0.1


def robust_rewards(claims: Claims, replaced: Replaced) -> tuple[Float[Tensor, " n"], float]:
    """[N] t' of each row, standardised as the rewards are, and r, at least 0.1.

    Rows keep their expectation where that is not such a sum, or not of a reward that is compared with others: trusted
    ones, responses that were given different rewards, of which at most one is true, and rows of no weight, which are
    those of groups of equal rewards. Where there are no others, or none surprises, r is 1.
    """
    single = (torch.bincount(claims.response) == 1)[claims.response[claims.claim]]
    summed = single & ~claims.trusted & (claims.weights > 0)
    weights, kept = claims.weights * summed, 1 - replaced.probability
    surprise = weights * kept * (claims.rewards - replaced.predicted).square()
    if not bool(surprise.any()):
        return replaced.expected, 1.0
    share = weights @ kept / weights.sum()
    recovered = max(float(share * (surprise @ kept) / surprise.sum()), _LEAST_RECOVERED)
    missed = (replaced.expected - replaced.predicted) / recovered
    return torch.where(summed, replaced.predicted + missed, replaced.expected), recovered
