"""The true reward t behind a noisy one y: a prior by what speaks for a row, and a noise channel from t to y.

    P(y | t) = (1 - e) 1{y = t} + e q(y):

a reward is kept, or with probability e replaced by a draw from q. An observed y multiplies the odds of t = y by
R(y) = 1 + (1 - e) / (e q(y)). EM on the recent batches fits e, q and the prior. Rows of one unit (the same answer or
response to a prompt) share t.

Verdicts (two values): P(t = 1) of unit u is logistic in its features, theta' x_u; TPR = 1 - e (1 - q(1)), FPR = e q(1);
of the answers of a group at most one is right. A verifier may err alike on equal answers: with rho, the correlation of
its errors on a unit, mixed verdicts are 1 - rho times as frequent, and n verdicts count as n / (1 + (n - 1) rho).

Other rewards: y, standardised within its group, is in one of 32 bins; P(t = v) is proportional to h(v) exp(s z v), z
the prediction, and a value that a response got twice counts once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.method.advantages import group_advantages
from geoalign.noise.channel import _FLOOR, Fit, starts_of
from geoalign.noise.rows import NoisyRows, dense, total, two_values
from geoalign.noise.units import Units, by_verdict, verdict_units

_EDGE, _BINS = 4.0, 32
_CENTRES = (torch.arange(_BINS, dtype=torch.float64) + 0.5) * (2 * _EDGE / _BINS) - _EDGE
# Share of true rewards that follow no prediction: a reward that surprises is not therefore wrong.
_SURPRISES = 0.1
# Where EM starts in s, the likeliest fit being taken; the first is its prior mean. From a small s it can end believing
# the most extreme rewards, from a large one believing none.
_SLOPES = torch.tensor([4.0, 2.0, 1.0], dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Posterior:
    """The true rewards t of rows; a reward is offset + scale * observation, and all from prior on in that `scale`."""

    group: Int[Tensor, " n"]
    observed: Float[Tensor, " n"]  # the rewards
    observation: Float[Tensor, " n"]  # the verdict, 0 or 1, or the reward standardised within its group
    offset: Float[Tensor, " n"]  # the lower verdict and what is added to it, or the group's mean; NaN where unscored
    scale: Float[Tensor, " n"]  # the gap of verdicts or the group's deviation, where that is 0 the others'
    verdicts: bool
    prior: Float[Tensor, " n"]  # m, the expected true reward before y is seen
    mean: Float[Tensor, " n"]  # p = E[t | y]
    estimate: Float[Tensor, " n"]  # what the row is given: p, matched in slope
    variance: Float[Tensor, " n"]  # v, of t given y
    group_variance: Float[Tensor, " n"]  # of the sum of t over the row's group, given y
    wrong: Float[Tensor, " n"]  # probability that the reward is wrong
    metrics: dict[str, float]
    fit: dict[str, Tensor]  # the fields of `Fit`; {} where nothing was judged
    units: Units | None = None  # of two values: what the fit is made of
    # Where the rates are not identified: the observations as far as they can be put right without them. `estimate` then
    # rests on no rate either.
    certain: Float[Tensor, " n"] | None = None

    def __getitem__(self, rows: slice) -> Posterior:
        cut: dict[str, Any] = {name: each[rows] for name, each in vars(self).items() if isinstance(each, Tensor)}
        return replace(self, **cut)

    @property
    def rewards(self) -> Float[Tensor, " n"]:
        """[N] the denoised rewards; bit for bit the observed ones where nothing is changed."""
        return torch.where(self.estimate == self.observation, self.observed, self.offset + self.scale * self.estimate)

    def corrected(self, correction: Float[Tensor, " n"]) -> Posterior:
        """With a correction added to the expected rewards; 0 leaves a row as it is.

        A verdict's probability of being wrong becomes its distance from the corrected mean; of other rewards it stays.
        """
        mean, wrong = self.mean + correction, self.wrong
        if self.verdicts:
            mean = mean.clamp(0, 1)
            wrong = torch.where(correction != 0, (self.observation - mean).abs(), wrong)
        # A slope-matched estimate may lie outside of [0, 1]: clamped, it would be shrunk again.
        return replace(self, mean=mean, estimate=self.estimate + (mean - self.mean), wrong=wrong)

    @property
    def standardised(self) -> Float[Tensor, " n"]:
        """[N] the expected true rewards within their groups; 0 in groups of equal ones, and where unscored."""
        return group_advantages(self.mean.masked_fill(self.offset.isnan(), torch.nan), self.group)

    @property
    def advantages(self) -> Float[Tensor, " n"]:
        """A = (t' - mean t') / s with t' the rewards given and s^2 = max(E[var t], var t') in the group.

        E[var t] = (sum (p - mean p)^2 + sum v - var(sum t) / n) / (n - 1). A group of which nothing is known is not
        scaled up to unit deviation, and none exceeds it.
        """
        known, group = ~self.offset.isnan(), self.group
        count = total(known, group).clamp(min=1)
        expected = group_advantages(self.offset + self.scale * self.mean, group, scale="none")
        within = self.scale.square() * (self.variance - self.group_variance / count[group].square())
        within = within.masked_fill(~known, 0)
        centred = group_advantages(self.rewards, group, scale="none")
        spread = torch.maximum(total(expected.square() + within, group), total(centred.square(), group))
        return centred / ((spread / (count - 1).clamp(min=1)).sqrt() + 1e-6)[group]


def infer(
    rows: NoisyRows,
    z: Float[Tensor, " n"] | None,
    *,
    least_slope: float,
    exclusive: bool = True,
    earlier: dict[str, Tensor] | None = None,
) -> Posterior:
    """The posterior of the rows' true rewards; a row of which nothing but its reward is known keeps that.

    Estimates are t' = m + (p - m) / r, r = sum w (p - m)^2 / sum w ((p - m)^2 + v), the slope of p - m on t - m, or a
    group's own where that is higher, as where the model is sure.

    Args:
        z: the prediction, of mean square 1; None: there is none.
        least_slope: lower bound of r.
        exclusive: at most one of a group's answers is right; False: several may be.
        earlier: the fit of the window before, where EM starts.
    """
    scored, group, told, zero = rows.accompanied, rows.group, z is not None, torch.zeros_like(rows.rewards)
    verdicts = two_values(rows.rewards[scored])
    if verdicts is not None:
        low, high = verdicts
        observation, scale = (rows.rewards > (low + high) / 2).double(), torch.full_like(zero, high - low)
        offset = rows.rewards - scale * observation
        # A row is judged by what is known of it: a prediction, its answer, or a response that got both verdicts.
        contradicted = (by_verdict(rows.answer, observation, scored) > 0).all(dim=1)[rows.answer]
        judged = scored & (told | rows.answered | rows.lacking | contradicted)
    else:
        centred = group_advantages(rows.rewards, group, scale="none")
        observation, offset = rows.standardised, rows.rewards - centred
        own = (total(centred.square(), group) / (total(rows.scored, group) - 1).clamp(min=1)).sqrt()
        scale = torch.where(own > 0, own, own[own > 0].square().mean().sqrt().nan_to_num())[group]
        judged = scored & (scale > 0) & told
    before = observation - group_advantages(observation.masked_fill(~rows.scored, torch.nan), group, scale="none")
    prior, expected, variance, wrong, metrics = before, observation, zero, zero, {}
    open_rows = compared = judged & ~rows.trusted
    unit = one_of = rows.response
    units = None
    known, z, fit = bool(judged.any()), zero if z is None else z, None
    if known and verdicts is not None:
        units = verdict_units(rows, z, observation, judged, exclusive)
        fit = units.fit(earlier or {})
        unit, one_of = units.unit, units.exclusive[units.unit]
        prior, expected = (share[unit] for share in units.probabilities(fit))
        variance, wrong = expected * (1 - expected), (observation - expected).abs()
        missed, false = (fit.e * fit.q).tolist()
        metrics = {"true_positive_rate": 1 - missed, "false_positive_rate": false, "informedness": 1 - missed - false}
        metrics["error_correlation"] = float(fit.rho)
    elif known:
        prior, expected, variance, wrong, fit = value_posterior(rows, z, judged, earlier or {})
        # A response has one true reward: of several observed ones at most one is right, for which m has no term.
        compared = open_rows & (observation != 0) & (total(judged, rows.response) == 1)[rows.response]
    prior, mean = torch.where(judged, prior, before), torch.where(open_rows, expected, observation)
    variance, wrong, weights = variance.clamp(min=0) * open_rows, wrong * open_rows, rows.weights * compared
    gained = (mean - prior).square()
    slope = max(float(weights @ gained / (weights @ (gained + variance)).clamp(min=_FLOOR)), least_slope)
    sure = total(weights * gained, group) / total(weights * (gained + variance), group).clamp(min=_FLOOR)
    estimate = torch.where(weights > 0, mean + (mean - prior) * (1 / sure.clamp(min=slope) - 1)[group], mean)
    # Rows of one unit are right together, of an exclusive group at most one is: E[s s'] of the sum s of a group's rows.
    right = mean * open_rows
    together = total(open_rows, unit)[unit] * (variance + right.square()) - right * total(right, one_of)[one_of]
    counted = rows.weights * (rows.scored & ~rows.trusted)
    share = float(counted @ wrong / counted.sum().clamp(min=_FLOOR))
    metrics = {"wrong_share": share, "recovered": slope, **metrics}
    after = {} if fit is None else fit._asdict()
    found = (prior, mean, estimate, variance, total(together, group)[group], wrong, metrics, after)
    return Posterior(group, rows.rewards, observation, offset, scale, known and verdicts is not None, *found, units)


def value_posterior(
    rows: NoisyRows, z: Float[Tensor, " n"], judged: Bool[Tensor, " n"], earlier: dict[str, Tensor]
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"], Float[Tensor, " n"], Float[Tensor, " n"], Fit]:
    """Of rewards standardised within groups m, E[t | y], v and P(t != y), and the fit, on groups of unequal rewards."""
    value, response, used = rows.standardised, rows.response, judged & ~rows.trusted & (rows.standardised != 0)
    z, observed = (total(z, response) / total(torch.ones_like(z), response))[response], _bin(value)
    table = torch.bincount(_bin(z) * _BINS + observed, rows.weights * used, _BINS**2).view(_BINS, _BINS)
    count, uniform = table.sum(dim=0), torch.full_like(_CENTRES, 1 / _BINS)
    h, found = (count + uniform) / (count + uniform).sum(), list[tuple[float, Fit]]()
    first = [
        Fit(slope, torch.tensor(0.2, dtype=torch.float32).double(), uniform, uniform.sum() * 0, h) for slope in _SLOPES
    ]
    starts, rounds = starts_of(earlier, first)

    def tilted(z: Tensor) -> Tensor:
        """P(t | z) of true rewards that follow the prediction."""
        return (fit.h.log() + fit.theta * z[:, None] * _CENTRES).softmax(dim=1)

    def likely(z: Tensor) -> Tensor:
        """P(t | z), of those that surprise too."""
        usual = table.sum(dim=1) @ tilted(_CENTRES) / count.sum().clamp(min=_FLOOR)
        return (1 - _SURPRISES) * tilted(z) + _SURPRISES * usual

    for fit in starts:
        for _ in range(rounds):
            before, following, all_of = fit, tilted(_CENTRES), likely(_CENTRES)
            # E step, in each bin of z and by value: the right rewards, and the true rewards that follow the prediction.
            rest = table / (1 + all_of * (fit.ratio - 1))
            right = rest * all_of * fit.ratio
            truth = (right + all_of * (rest.sum(dim=1, keepdim=True) - rest)) * (1 - _SURPRISES) * following / all_of
            some, mean = truth.sum(dim=1), following @ _CENTRES
            gradient = _CENTRES @ (truth @ _CENTRES - some * mean) - (fit.theta - _SLOPES[0])
            hessian = _CENTRES.square() @ (some * (following @ _CENTRES.square() - mean.square())) + 1
            h = fit.h * (truth.sum(dim=0) + uniform) / (some @ following + uniform)
            fit = fit.with_channel(count, right.sum(dim=0), 0.0, 1 / _BINS)
            fit = fit._replace(theta=fit.theta + gradient / hessian, h=h / h.sum())
            if fit.is_near(before):
                break
        observed_as = (1 - fit.e) * likely(_CENTRES) + fit.e * fit.q
        found.append((float((table * observed_as.clamp(min=_FLOOR).log()).sum()), fit))
    fit = max(found, key=lambda each: each[0])[1]
    share = likely(z)
    own = share.gather(1, observed[:, None])[:, 0]
    alike, gain = dense(response, observed), own * (fit.ratio[observed] - 1) * judged
    once = gain / total(torch.ones_like(own), alike)[alike]
    odds = 1 + total(once, response)[response]
    # A kept reward is itself, not the centre of its bin.
    moments = (share @ _CENTRES**power + total(once * value**power, response)[response] for power in (1, 2))
    mean, square = (moment / odds for moment in moments)
    return share @ _CENTRES, mean, square - mean.square(), 1 - (own + gain) / odds, fit


def _bin(values: Float[Tensor, " n"]) -> Int[Tensor, " n"]:
    return ((values + _EDGE) * (_BINS / (2 * _EDGE))).long().clamp(0, _BINS - 1)
