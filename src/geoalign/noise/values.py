"""The noise model of rewards that are no verdicts: reward-model scores and sums of several terms.

A reward y, standardised within its group, lies in one of 32 bins, and so does the prediction z. The true reward t has

    P(t = v | z) = 0.9 h(v) exp(s z v) / normaliser + 0.1 P(t = v),

for one in ten follows no prediction: a reward that surprises is not therefore wrong. The channel P(y | t) is that of
`geoalign.noise.channel`. A value that a response got twice counts once.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.noise.channel import COLD_ROUNDS, SMALLEST, NoiseFit, earlier_fit
from geoalign.noise.rows import NoisyRows, dense_labels, sum_by_label

# Standardised rewards beyond it lie in the outermost bins.
_EDGE = 4.0
_BINS = 32
_CENTRES = (torch.arange(_BINS, dtype=torch.float64) + 0.5) * (2 * _EDGE / _BINS) - _EDGE
# Share of true rewards that follow no prediction.
_SURPRISES = 0.1
# Where EM starts in s, the likeliest fit being taken; the first is its prior mean. From a small s it can end believing
# the most extreme rewards, from a large one believing none.
_FIRST_SLOPES = torch.tensor([4.0, 2.0, 1.0], dtype=torch.float64)
# Rounds of EM from an earlier fit.
_WARM_ROUNDS = 10
# e, where EM starts; a number of float32.
_FIRST_ERROR = torch.tensor(0.2, dtype=torch.float32).double()


class ValueBeliefs(NamedTuple):
    """What the model believes of the true rewards t of rows, on the scale of standardised rewards.

    Attributes:
        prior: [N] E[t] before the reward is seen.
        mean: [N] E[t | y].
        variance: [N] of t given y.
        wrong: [N] P(t != y).
        fit: the parameters.
    """

    prior: Float[Tensor, " n"]
    mean: Float[Tensor, " n"]
    variance: Float[Tensor, " n"]
    wrong: Float[Tensor, " n"]
    fit: NoiseFit


def value_beliefs(
    rows: NoisyRows,
    prediction: Float[Tensor, " n"],
    judged: Bool[Tensor, " n"],
    earlier: dict[str, Tensor],
) -> ValueBeliefs:
    """Fits the model on the judged rows of groups with unequal rewards, and says what it believes of all rows.

    Args:
        prediction: [N] z, of mean square 1.
        judged: [N] rows whose reward speaks.
        earlier: the fields of an earlier fit, where EM goes on; {}: it starts anew.
    """
    value = rows.standardised
    response = rows.response
    of_response = sum_by_label(prediction, response) / sum_by_label(torch.ones_like(prediction), response)
    prediction = of_response[response]
    observed = _bin(value)
    fitted = judged & ~rows.trusted & (value != 0)
    cell = _bin(prediction) * _BINS + observed
    table = torch.bincount(cell, rows.weights * fitted, _BINS**2).view(_BINS, _BINS)
    model = _TrueValues(table)
    fit = model.fit(earlier)

    share = model.prior(fit, prediction)
    own = share.gather(1, observed[:, None])[:, 0]
    gain = own * (fit.likelihood_ratio[observed] - 1) * judged
    # Rows of one response with rewards in one bin count once.
    alike = dense_labels(response, observed)
    once = gain / sum_by_label(torch.ones_like(own), alike)[alike]
    normaliser = 1 + sum_by_label(once, response)[response]

    def moment(power: int) -> Float[Tensor, " n"]:
        """E[t^power | y]; a kept reward is itself, not the centre of its bin."""
        kept = sum_by_label(once * value**power, response)[response]
        return (share @ _CENTRES**power + kept) / normaliser

    mean = moment(1)
    return ValueBeliefs(
        prior=share @ _CENTRES,
        mean=mean,
        variance=moment(2) - mean.square(),
        wrong=1 - (own + gain) / normaliser,
        fit=fit,
    )


class _TrueValues:
    """P(t | z), and its fit to a table of predictions and rewards.

    Args:
        table: [32, 32] weight of the rows whose prediction and whose reward lie in these bins.
    """

    def __init__(self, table: Float[Tensor, "v v"]) -> None:
        self.table = table
        self.count = table.sum(dim=0)
        self.uniform = torch.full_like(_CENTRES, 1 / _BINS)

    def following(self, fit: NoiseFit, prediction: Float[Tensor, " n"]) -> Float[Tensor, "n v"]:
        """[N, V] P(t | z) of true rewards that follow the prediction."""
        log_weights = fit.values.log() + fit.theta * prediction[:, None] * _CENTRES
        return log_weights.softmax(dim=1)

    def prior(self, fit: NoiseFit, prediction: Float[Tensor, " n"]) -> Float[Tensor, "n v"]:
        """[N, V] P(t | z): the distribution that follows the prediction, with a share that surprises mixed in."""
        rows_by_prediction = self.table.sum(dim=1)
        all_rows = self.count.sum().clamp(min=SMALLEST)
        usual = rows_by_prediction @ self.following(fit, _CENTRES) / all_rows
        return (1 - _SURPRISES) * self.following(fit, prediction) + _SURPRISES * usual

    def fit(self, earlier: dict[str, Tensor]) -> NoiseFit:
        """The likeliest of the fits by EM, from the earlier fit or from several slopes."""
        count = self.count + self.uniform
        cold = NoiseFit(
            theta=_FIRST_SLOPES[0],
            error=_FIRST_ERROR,
            replacement=self.uniform,
            correlation=torch.zeros(()).double(),
            values=count / count.sum(),
        )
        warm = earlier_fit(earlier, cold)
        if warm is not None:
            return self._fitted_from(warm, _WARM_ROUNDS)
        fits = [self._fitted_from(cold._replace(theta=slope), COLD_ROUNDS) for slope in _FIRST_SLOPES]
        return max(fits, key=self._log_likelihood)

    def _fitted_from(self, fit: NoiseFit, rounds: int) -> NoiseFit:
        """The fit after so many rounds of EM, or as many as it takes until no parameter changes."""
        for _ in range(rounds):
            before = fit
            fit = self._em_round(fit)
            if fit.is_near(before):
                break
        return fit

    def _em_round(self, fit: NoiseFit) -> NoiseFit:
        """The fit after one round of EM; tables are by the bin of z and by value.

        The Newton step of s has the gradient sum over z of z (sum over t of t - n E[t]), with n the true rewards that
        follow z and E[t] their expectation, and the Hessian sum over z of z^2 n var(t); its prior is N(4, 1).
        """
        following = self.following(fit, _CENTRES)
        prior = self.prior(fit, _CENTRES)
        # E step: the rewards that are right, the true rewards, and those of them that follow the prediction.
        per_chance = self.table / (1 + prior * (fit.likelihood_ratio - 1))
        right = per_chance * prior * fit.likelihood_ratio
        seen_as_others = per_chance.sum(dim=1, keepdim=True) - per_chance
        true = right + prior * seen_as_others
        true_following = true * (1 - _SURPRISES) * following / prior
        # M step: s, then h, e and q.
        n = true_following.sum(dim=1)
        mean = following @ _CENTRES
        variance = following @ _CENTRES.square() - mean.square()
        gradient = _CENTRES @ (true_following @ _CENTRES - n * mean) - (fit.theta - _FIRST_SLOPES[0])
        hessian = _CENTRES.square() @ (n * variance) + 1
        wanted = true_following.sum(dim=0) + self.uniform
        expected = n @ following + self.uniform
        values = fit.values * wanted / expected
        with_channel = fit.with_channel(self.count, right.sum(dim=0), 0.0, 1 / _BINS)
        return with_channel._replace(theta=fit.theta + gradient / hessian, values=values / values.sum())

    def _log_likelihood(self, fit: NoiseFit) -> float:
        """Of the table: sum over rows of log P(y | z)."""
        observed = (1 - fit.error) * self.prior(fit, _CENTRES) + fit.error * fit.replacement
        log_chance = observed.clamp(min=SMALLEST).log()
        return float((self.table * log_chance).sum())


def _bin(values: Float[Tensor, " n"]) -> Int[Tensor, " n"]:
    """[N] the bins in which the values lie."""
    place = (values + _EDGE) * (_BINS / (2 * _EDGE))
    return place.long().clamp(0, _BINS - 1)
