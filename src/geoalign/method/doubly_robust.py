"""Denoised rewards in which what was predicted counts no more than what the rewards say.

E[t | y] = m + (E[t | y] - m), with m what is expected of the true reward t before the observed one, y, is looked at (by
a prediction from states, or by how frequent an answer is), shrinks all that m misses of t, and what it knows not at
all. A policy that is given such rewards follows first what is easy to predict or frequent already, right or wrong, and
makes it more so. The shrinkage is the slope of least squares of the second part on what it stands for,

    r = E[(E[t | y] - m)(t - m)] / E[(t - m)^2].

Divided by it, the rewards are doubly robust (augmented inverse probability weighting: Robins, Rotnitzky and Zhao 1994;
for policies Dudik, Langford and Li 2011):

    t' = m + (E[t | y] - m) / r.

They have more variance than the expectation and less bias: over many updates the one averages out, the other adds up.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.method.replaced_rewards import Claims, Replaced

# Bound the factor 1 / r, and with it the variance. Verdicts that are often wrong say little each: 1 / r would make them
# as loud as they are in plain GRPO.
_LEAST_OF_REWARDS, _LEAST_OF_VERDICTS = 0.1, 0.3


def robust_rewards(claims: Claims, replaced: Replaced) -> tuple[Float[Tensor, " n"], float]:
    """[N] t' of continuous rewards, standardised as they are, and r, at least 0.1.

    With p the probability that y was kept, E[t | y] - m = p (y - m): a kept reward is t, a replaced one has no regard
    for it, so r = E[p] E[p^2 (y - m)^2] / E[p (y - m)^2].

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
    recovered = max(float(share * (surprise @ kept) / surprise.sum()), _LEAST_OF_REWARDS)
    missed = (replaced.expected - replaced.predicted) / recovered
    return torch.where(summed, replaced.predicted + missed, replaced.expected), recovered


def robust_truth(
    posterior: Float[Tensor, " n"], prior: Float[Tensor, " n"], weights: Float[Tensor, " n"]
) -> tuple[Float[Tensor, " n"], float]:
    """[N] t' of binary rewards, t = 1 where the row is right, and r, at least 0.3.

    With P = P(t = 1 | verdicts) and m the probability before them, r = E[(P - m)^2] / E[(P - m)^2 + P (1 - P)].

    Args:
        posterior: P.
        prior: m.
        weights: of each row in the means; rows of weight 0, such as trusted ones, keep P.
    """
    missed = posterior - prior
    explained = weights @ missed.square()
    if not explained > 0:
        return posterior, 1.0
    recovered = max(float(explained / (explained + weights @ (posterior * (1 - posterior)))), _LEAST_OF_VERDICTS)
    return torch.where(weights > 0, prior + missed / recovered, posterior), recovered
