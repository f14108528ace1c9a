"""Continuous rewards of which some were replaced: which ones, and what the true reward would have been.

A kept reward follows the prediction z: P(bin of y | z) = h(bin) exp(slope z v(bin)) / Z(z), v the bin's middle, y the
reward standardised in its group; one kept reward in ten follows nothing, and is distributed as the kept ones are on
average, so that a reward which merely surprises is not taken for wrong. A replaced one has no regard for z:
P(bin of y) = q(bin), where q(bin) / k(bin), k the kept ones' average distribution, does not fall with the distance from
the group's mean on either side: rewards far off are the ones that are too common where some were replaced, and common
values near the mean are not taken for wrong. Both histograms, the slope and the share of replaced rewards are fitted by
expectation maximisation. Rows that hold the same response have one true reward: at most one of the different rewards
that they were given is it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.optimize import isotonic_regression
from torch import Tensor

# Standardised rewards of a group of K lie within (K - 1) / sqrt(K); beyond these edges the outermost bins take them.
_EDGE, _BINS = 4.0, 32
_CENTRES = (torch.arange(_BINS, dtype=torch.float64) + 0.5) * (2 * _EDGE / _BINS) - _EDGE
# Of kept rewards that follow no prediction.
_SURPRISES = 0.1
# Pseudo-counts spread over a histogram.
_COUNTS = 1.0
_FLOOR = 1e-30
# A bin that holds less of the kept rewards says nothing of the surprises.
_RARE = 0.02
# Keeps the ratio to empty bins finite.
_FLAT = 1e-5


@dataclass(frozen=True, eq=False)
class Claims:
    """N scored rows with the claims that they make: a claim is a reward given to a response.

    Attributes:
        rewards: [N] standardised within the group.
        predictions: [N] z, of variance about 1.
        claim: [N] rows of equal number gave the same response the same reward.
        response: [C] claims of equal number are about the same response.
        weights: [N] weight of each row in the fit.
        trusted: [N] rows whose reward is known to be true.
    """

    rewards: Float[Tensor, " n"]
    predictions: Float[Tensor, " n"]
    claim: Int[Tensor, " n"]
    response: Int[Tensor, " c"]
    weights: Float[Tensor, " n"]
    trusted: Bool[Tensor, " n"]


@dataclass(frozen=True, eq=False)
class ReplacementModel:
    """Share of replaced rewards, slope of the kept ones on z, h, the kept ones' average distribution, and q [bins]."""

    share: float
    slope: float
    base: Float[Tensor, " n"]
    kept: Float[Tensor, " n"]
    replaced: Float[Tensor, " n"]

    @property
    def least_share(self) -> float:
        """The part of `share` that kept rewards which follow no prediction cannot explain, however many they are.

        Rewards that are replaced and kept ones that merely surprise both follow no prediction. Their distribution is
        n(y) = share q(y) + (1 - share) surprises k(y), k that of the kept; as many surprises as fit into it, kappa =
        min n(y) / k(y) over bins as wide as a deviation, leave the sum of n - kappa k.
        """
        wide = _BINS // int(2 * _EDGE)
        kept = self.kept.view(-1, wide).sum(dim=1)
        either = self.share * self.replaced.view(-1, wide).sum(dim=1) + (1 - self.share) * _SURPRISES * kept
        common = kept > _RARE
        kappa = (either / kept)[common].min() if bool(common.any()) else 0.0
        return float((either - kappa * kept).clamp(min=0).sum())


@dataclass(frozen=True, eq=False)
class Replaced:
    """What a model says of N rows.

    Attributes:
        probability: [N] that the reward was replaced.
        expected: [N] the expected true reward, standardised.
        variance: [N] variance of the true reward around it.
        predicted: [N] E[y | z] of the kept: what is expected of a row whose reward is not known.
    """

    probability: Float[Tensor, " n"]
    expected: Float[Tensor, " n"]
    variance: Float[Tensor, " n"]
    predicted: Float[Tensor, " n"]


def initial_model(claims: Claims) -> ReplacementModel:
    """One fifth replaced, anywhere; the kept ones distributed as all are, and following their predictions closely.

    From a small slope the fit can end where the most extreme rewards are believed, however many they are; from a large
    one it ends where the likelihood is higher.
    """
    marginal = _normalised(_table(claims, claims.weights).sum(dim=0))
    return ReplacementModel(0.2, 4.0, marginal, marginal, torch.full((_BINS,), 1 / _BINS, dtype=torch.float64))


def fit_replacement(claims: Claims, start: ReplacementModel, *, rounds: int = 100) -> ReplacementModel:
    """Expectation maximisation from `start`; the slope by one Newton step, h by one step of scaling a round.

    Rows are counted by bins of z and y first, so a round costs the same for any number of them; what rows of one
    response say of each other is left to `replaced_rewards`. Trusted rows are not counted: where no reward of a group
    is wrong, standardised rewards are distributed otherwise than kept ones are in groups with wrong ones.
    """
    model = start
    counted = _table(claims, claims.weights * ~claims.trusted)
    for _ in range(rounds):
        following = _following(model, _CENTRES)
        kept = (1 - model.share) * ((1 - _SURPRISES) * following + _SURPRISES * model.kept)
        right = kept / (kept + model.share * model.replaced).clamp(min=_FLOOR)
        likely = counted * right
        obeying = (1 - _SURPRISES) * following
        obeying = likely * obeying / (obeying + _SURPRISES * model.kept).clamp(min=_FLOOR)
        mean = following @ _CENTRES
        variance = following @ _CENTRES.square() - mean.square()
        gradient = (obeying * _CENTRES[:, None] * (_CENTRES - mean[:, None])).sum()
        curvature = obeying.sum(dim=1) @ (_CENTRES.square() * variance)
        ratio = (likely.sum(dim=0) + _COUNTS / _BINS) / (likely.sum(dim=1) @ following + _COUNTS / _BINS)
        base = (model.base * ratio).clamp(min=_FLOOR)
        wrong = (counted * (1 - right)).sum(dim=0)
        average = counted.sum(dim=1) @ following / counted.sum().clamp(min=_FLOOR)
        model = ReplacementModel(
            share=float(wrong.sum() / counted.sum().clamp(min=_FLOOR)),
            slope=max(0.0, model.slope + float(gradient / (curvature + 1e-6))),
            base=base / base.sum(),
            kept=average,
            replaced=_ordered(wrong, average),
        )
    return model


def _ordered(counts: Float[Tensor, " bins"], kept: Float[Tensor, " bins"]) -> Float[Tensor, " bins"]:
    """The likeliest distribution of the counts whose ratio to the kept ones' rises from the middle outward.

    That is the isotonic regression of the ratio, weighted by the kept ones, on either side.
    """
    weights = kept + _FLAT
    ratio, middle = (counts / weights).numpy(), _BINS // 2
    below = isotonic_regression(ratio[:middle], weights=weights[:middle].numpy(), increasing=False).x
    above = isotonic_regression(ratio[middle:], weights=weights[middle:].numpy()).x
    return _normalised(torch.from_numpy(np.concatenate([below, above])) * weights)


def replaced_rewards(claims: Claims, model: ReplacementModel) -> Replaced:
    """Each row's probability of a replaced reward, and its expected true one.

    The true reward is that of the response's true claim, or, if all of its claims were replaced, what its prediction
    says: E[y | z] of the kept.
    """
    bins = _bin(claims.rewards)
    truth, none = _claim_probabilities(claims, bins, model)
    count = len(none)
    value = _means(claims.rewards, claims.claim, len(truth))
    moments = torch.stack([truth * value, truth * value.square()], dim=1)
    claimed = moments.new_zeros(count, 2).index_add_(0, claims.response, moments)
    response = claims.response[claims.claim]
    predicted = _kept_distribution(model, claims.predictions) @ torch.stack([_CENTRES, _CENTRES.square()], dim=1)
    expected, square = (claimed[response] + none[response, None] * predicted).unbind(1)
    known = claims.trusted
    return Replaced(
        (1 - truth[claims.claim]).masked_fill(known, 0.0),
        torch.where(known, claims.rewards, expected),
        (square - expected.square()).clamp(min=0).masked_fill(known, 0.0),
        predicted[:, 0],
    )


def _claim_probabilities(
    claims: Claims, bins: Int[Tensor, " n"], model: ReplacementModel
) -> tuple[Float[Tensor, " c"], Float[Tensor, " r"]]:
    """P(claim is the true one) [C], and P(none of them is) of each response [R].

    Given that a claim is true it was kept and all others of the response were replaced; relative to all of them
    replaced this is P(y | z) (1 - share) / (share q).
    """
    share = min(max(model.share, 1e-6), 1 - 1e-6)
    kept = _kept_distribution(model, claims.predictions).gather(1, bins[:, None])[:, 0]
    ratio = torch.log(torch.tensor((1 - share) / share)) - model.replaced[bins].log()
    count = len(claims.response)
    # A claim made twice is one claim: what wronged a response once wrongs it again in the same way.
    odds = _means(kept.log() + ratio, claims.claim, count)
    responses = int(claims.response.max()) + 1 if count else 0
    highest = odds.new_zeros(responses).scatter_reduce(0, claims.response, odds, "amax")
    likely = (odds - highest[claims.response]).exp()
    none = (-highest).exp()
    total = none.index_add(0, claims.response, likely)
    return likely / total[claims.response], none / total


def _following(model: ReplacementModel, predictions: Float[Tensor, " n"]) -> Float[Tensor, "n bins"]:
    """P(bin | z) of the kept rewards that follow z."""
    return (model.base.log() + model.slope * predictions[:, None] * _CENTRES).softmax(dim=1)


def _kept_distribution(model: ReplacementModel, predictions: Float[Tensor, " n"]) -> Float[Tensor, "n bins"]:
    """P(bin | z) of all kept rewards."""
    return (1 - _SURPRISES) * _following(model, predictions) + _SURPRISES * model.kept


def _bin(rewards: Float[Tensor, " n"]) -> Int[Tensor, " n"]:
    return ((rewards + _EDGE) * (_BINS / (2 * _EDGE))).long().clamp(0, _BINS - 1)


def _table(claims: Claims, weights: Float[Tensor, " n"]) -> Float[Tensor, "bins bins"]:
    """The weight of the rows in each bin of z (down) and of y (across)."""
    cell = _bin(claims.predictions) * _BINS + _bin(claims.rewards)
    return torch.zeros(_BINS * _BINS, dtype=torch.float64).index_add_(0, cell, weights).view(_BINS, _BINS)


def _normalised(counts: Float[Tensor, " bins"]) -> Float[Tensor, " bins"]:
    counts = counts + _COUNTS / _BINS
    return counts / counts.sum()


def _means(values: Float[Tensor, " n"], member: Int[Tensor, " n"], count: int) -> Float[Tensor, " c"]:
    total = values.new_zeros(count).index_add_(0, member, values)
    return total / torch.bincount(member, minlength=count).clamp(min=1)
