"""The true reward t behind a noisy one y: a prior from what speaks for a row, a channel from t to y.

Rows of one unit (one answer or one response to a prompt) share t. Of unit u with features x_u,

    P(t = v) proportional to h(v) exp(v theta' x_u),    P(y | t) = (1 - e) 1{y = t} + e q(y),

An observed y raises the odds of t = y by R(y) = 1 + (1 - e) / (e q(y)). Expectation maximisation fits theta, h, e and q
on the recent batches. With two values this is logistic regression behind flips at TPR = 1 - e (1 - q(1)), FPR = e q(1);
of the answered units of a group at most one is right. A verifier may err alike on equal answers: verdicts on one unit
that are wrong together with probability rho differ 1 - rho times as often as independent ones, and n of them count as n
/ (1 + (n - 1) rho). With more values y is standardised within its group and stands in 32 bins, x is the prediction
alone, and a value observed twice counts once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.curators.denoise.rows import NoisyRows, total, two_values
from geoalign.method.advantages import group_advantages

# Of the log-odds: what is certain.
LIMIT = 30.0
_FLOOR = 1e-30
_EDGE, _BINS = 4.0, 32
_CENTRES = (torch.arange(_BINS, dtype=torch.float64) + 0.5) * (2 * _EDGE / _BINS) - _EDGE
# Of true rewards that follow no prediction, so that one that merely surprises is not taken for wrong.
_SURPRISES = 0.1
# Pseudo-counts of the Beta rate of a group: in one of two rows the other's verdict must not outweigh a row's own.
_RATE = 4.0
# Pairs of verdicts on one unit that are as independent as expected, before any is seen.
_PAIRS = 4.0
# Prior means of theta: answered, its log share, z, no answer among answers, no answers at all, log-odds of the group.
_THETA = torch.tensor([0.0, 1.0, 0.0, -2.0, 0.0, 1.0], dtype=torch.float64)
# From a small slope the fit can end where the most extreme rewards are believed, however many they are.
_SLOPE = torch.tensor([4.0], dtype=torch.float64)


class Fit(NamedTuple):
    """theta, h, e, q and rho."""

    theta: Float[Tensor, " f"]
    base: Float[Tensor, " v"]
    replaced: Float[Tensor, ""]
    anywhere: Float[Tensor, " v"]
    together: Float[Tensor, ""]

    @property
    def ratio(self) -> Float[Tensor, " v"]:
        """R, the factor on the odds of the value that was observed."""
        return 1 + (1 - self.replaced) / (self.replaced * self.anywhere).clamp(min=_FLOOR)

    def rates(self) -> dict[str, float]:
        """Of verdicts."""
        if len(self.base) > 2:
            return {}
        missed, false = (self.replaced * self.anywhere).tolist()
        rates = {"true_positive_rate": 1 - missed, "false_positive_rate": false, "informedness": 1 - missed - false}
        return {**rates, "error_correlation": float(self.together)}


@dataclass(frozen=True, eq=False)
class Posterior:
    """The true rewards of rows, rewards being offset + scale * observation; prior to variance in units of `scale`."""

    observed: Float[Tensor, " n"]  # the rewards
    observation: Float[Tensor, " n"]  # the verdict, 0 or 1, or the reward standardised within its group
    offset: Float[Tensor, " n"]  # the lower verdict and what is added to it, or the group's mean; NaN where unscored
    scale: Float[Tensor, " n"]  # the gap of verdicts or the group's deviation, the others' where its rewards are equal
    verdicts: bool
    prior: Float[Tensor, " n"]  # m, the expected true reward before the row's own was looked at
    mean: Float[Tensor, " n"]  # e, the expected true reward
    estimate: Float[Tensor, " n"]  # what the row is given: e, matched in slope
    variance: Float[Tensor, " n"]  # v, of the true reward around e
    group_variance: Float[Tensor, " n"]  # that of the sum over the row's group
    wrong: Float[Tensor, " n"]  # probability that the reward is wrong
    metrics: dict[str, float]
    fit: Fit | None = None

    def __getitem__(self, rows: slice) -> Posterior:
        cut: dict[str, Any] = {name: each[rows] for name, each in vars(self).items() if isinstance(each, Tensor)}
        return replace(self, **cut)

    @property
    def expected(self) -> Float[Tensor, " n"]:
        """[N] the expected true reward; NaN where unscored."""
        return self.offset + self.scale * self.mean

    @property
    def rewards(self) -> Float[Tensor, " n"]:
        """[N] what the rows are given as their rewards: their own where nothing is to be changed."""
        return torch.where(self.estimate == self.observation, self.observed, self.offset + self.scale * self.estimate)

    def corrected(self, correction: Float[Tensor, " n"]) -> Posterior:
        """With a correction added to the expected rewards; 0 leaves a row as it is.

        Verdicts are then as likely wrong as they are far from the expected one. Of other rewards the probability is
        that of a single wrong one, and stays.
        """
        mean = self.mean + correction
        if not self.verdicts:
            return replace(self, mean=mean, estimate=self.estimate + correction)
        changed, mean = correction != 0, mean.clamp(0, 1)
        return replace(
            self,
            mean=mean,
            # A matched estimate may lie beyond the bounds: to clamp it would shrink it again.
            estimate=self.estimate + (mean - self.mean),
            variance=torch.where(changed, mean * (1 - mean), self.variance),
            wrong=torch.where(changed, (self.observation - mean).abs(), self.wrong),
        )

    def advantages(self, group: Int[Tensor, " n"], rest: Tensor | float = 0.0) -> Float[Tensor, " n"]:
        """A = (t' - mean t') / s with t' the rewards given and s^2 = max(E[var t], var t') in the group.

        E[var t] = (sum (e - mean e)^2 + sum v - var(sum t) / n) / (n - 1). A group of which nothing is known is not
        blown up to unit deviation, and none goes beyond it. `rest` is a part of the rewards that is no noise.
        """
        known = ~self.offset.isnan()
        count = total(known, group).clamp(min=1)
        within = self.scale.square() * (self.variance - self.group_variance / count[group].square())
        centred = group_advantages(self.rewards + rest, group, scale="none")
        spread = total(group_advantages(self.expected + rest, group, scale="none").square(), group)
        spread = torch.maximum(spread + total(within.masked_fill(~known, 0), group), total(centred.square(), group))
        return centred / ((spread / (count - 1).clamp(min=1)).sqrt() + 1e-6)[group]


def infer(
    rows: NoisyRows,
    z: Float[Tensor, " n"] | None,
    *,
    least_slope: float,
    exclusive: bool = True,
    earlier: Fit | None = None,
) -> Posterior:
    """The posterior of the rows' true rewards, verdicts or others; where nothing speaks for a row its reward is right.

    Estimates are t' = m + (e - m) / r, r = sum w (e - m)^2 / sum w ((e - m)^2 + v), the slope of e - m on t - m, or a
    group's own where that is higher, as where the model is sure.

    Args:
        z: prediction of each row, of mean square 1; None: nothing is predicted.
        least_slope: r is this at least.
        exclusive: at most one of a group's answers is right; False: several may be.
        earlier: the fit of the window before, where this one's begins.
    """
    scored, group, zero = rows.accompanied, rows.group, torch.zeros_like(rows.rewards)
    verdicts = two_values(rows.rewards[scored])
    if verdicts is not None:
        low, high = verdicts
        observation, scale = (rows.rewards > (low + high) / 2).double(), torch.full_like(zero, high - low)
        speaks = z is not None or bool((rows.answered & scored).any() | rows.contradicted.any())
        judged, offset = scored & speaks, rows.rewards - scale * observation
    else:
        observation, centred = rows.standardised, group_advantages(rows.rewards, group, scale="none")
        own = (total(centred.square(), group) / (total(rows.scored, group) - 1).clamp(min=1)).sqrt()
        typical = own[own > 0].square().mean().sqrt() if bool((own > 0).any()) else 0.0
        scale, offset = torch.where(own > 0, own, typical)[group], rows.rewards - centred
        judged = scored & (scale > 0) & (z is not None)
    before = observation - group_advantages(observation.masked_fill(~rows.scored, torch.nan), group, scale="none")
    if not bool(judged.any()):
        certain = (before, observation, observation, zero, zero, zero, {"wrong_share": 0.0})
        return Posterior(rows.rewards, observation, offset, scale, False, *certain)
    open_rows, z = judged & ~rows.trusted, zero if z is None else z
    if verdicts is not None:
        units = verdict_units(rows, z, observation, judged, exclusive)
    else:
        units = value_units(rows, z, observation, judged)
    known = earlier is not None and len(earlier.base) == len(units.grid)
    fitted = units.fit(earlier, rounds=10) if known else units.fit()
    unit, grid, (likely, truth) = units.unit, units.grid, units.probabilities(fitted)
    # A reward that is kept is itself, not the middle of its bin.
    kept, near = truth[unit, units.observed], grid[units.observed]
    expected = (truth @ grid)[unit] + kept * (observation - near)
    spread = (truth @ grid.square())[unit] + kept * (observation.square() - near.square()) - expected.square()
    prior, mean = torch.where(judged, (likely @ grid)[unit], before), torch.where(open_rows, expected, observation)
    variance, wrong = spread.clamp(min=0) * open_rows, (1 - kept) * open_rows
    weights = rows.weights * units.compared
    missed = (mean - prior).square()
    slope = max(float(weights @ missed / (weights @ (missed + variance)).clamp(min=_FLOOR)), least_slope)
    sure = total(weights * missed, group) / total(weights * (missed + variance), group).clamp(min=_FLOOR)
    estimate = torch.where(weights > 0, mean + (mean - prior) * (1 / sure.clamp(min=slope) - 1)[group], mean)
    # Rows of one unit are right together, of an exclusive group at most one is: E[s s'] of the sum s of a group's rows.
    right, one_of = mean * open_rows, units.exclusive[unit]
    together = total(open_rows, unit)[unit] * (variance + right.square()) - right * total(right, one_of)[one_of]
    counted = rows.weights * (rows.scored & ~rows.trusted)
    share = float(counted @ wrong / counted.sum().clamp(min=_FLOOR))
    metrics = {"wrong_share": share, "recovered": slope, **fitted.rates()}
    found = (prior, mean, estimate, variance, total(together, group)[group], wrong, metrics)
    return Posterior(rows.rewards, observation, offset, scale, verdicts is not None, *found, fitted)


@dataclass(frozen=True, eq=False)
class Units:
    """C units whose truth is one of V values, and what N rows were observed to be."""

    grid: Float[Tensor, " v"]  # the values
    unit: Int[Tensor, " n"]  # of each row
    observed: Int[Tensor, " n"]  # index of the value of the row's reward
    compared: Bool[Tensor, " n"]  # whether the reward is held against what was expected of it
    counts: Float[Tensor, "c v"]  # rows of each value
    known: Float[Tensor, "c v"]  # trusted rows of each value
    features: Float[Tensor, "c f"]
    weight: Float[Tensor, " c"]
    exclusive: Int[Tensor, " c"]  # of the units of one number at most one is right
    start: Float[Tensor, " f"]  # prior mean of theta
    pseudo: tuple[float, float]  # counts of rewards that were kept, and of replaced ones of each value

    def probabilities(self, fit: Fit) -> tuple[Float[Tensor, "c v"], Float[Tensor, "c v"]]:
        """P(t) of each unit before its rewards are seen, and after."""
        logits = self._logits(fit)[1]
        return self._shares(logits), self._shares(logits + self._evidence(fit))

    def fit(self, start: Fit | None = None, *, rounds: int = 60) -> Fit:
        """Expectation maximisation: e and q with pseudo-counts, theta by a Newton step around its prior mean."""
        many, count = len(self.grid) > 2, len(self.grid)
        units = self._merged() if many else self
        x, weight, made = units.features, units.weight, units.weight @ units.counts
        uniform, (kept, replaced) = torch.full_like(self.grid, 1 / count), self.pseudo
        base = (made + uniform) / (made + uniform).sum() if many else uniform
        fit = start or Fit(self.start, base, torch.tensor(0.2 if many else 0.4).double(), uniform, 0 * uniform[0])
        for _ in range(rounds):
            following, logits = units._logits(fit)
            truth, before = units._shares(logits + units._evidence(fit)), fit
            likely = (truth * following / units._shares(logits) * (1 - _SURPRISES) if many else truth) * weight[:, None]
            of, mean = likely.sum(dim=1), following @ self.grid
            gradient = x.T @ (likely @ self.grid - of * mean) - (fit.theta - self.start)
            # Units of an exclusive group share a weight.
            shared = x.new_zeros(int(units.exclusive.max()) + 1, x.shape[1])
            shared = shared.index_add(0, units.exclusive, x * (mean * of.sqrt())[:, None])
            hessian = x.T @ (x * (of * (following @ self.grid.square()))[:, None]) - shared.T @ shared
            step = torch.linalg.solve(hessian + torch.eye(x.shape[1]).double(), gradient)
            if many:
                base = fit.base * (likely.sum(dim=0) + uniform) / (of @ following + uniform)
            counts = units.independent(fit)
            made, same = weight @ counts, weight @ (counts * truth)
            for _ in range(3):
                wrong = made - same * (1 - 1 / fit.ratio) + replaced
                every = made.sum() + kept + count * replaced
                fit = fit._replace(replaced=wrong.sum() / every, anywhere=wrong / wrong.sum())
            if not many:
                differ, errors = weight @ units.counts.prod(dim=1), fit.replaced * fit.anywhere.flip(0)
                pairs = truth.T @ (weight * (units.counts.sum(dim=1).square() - units.counts.sum(dim=1)))
                expected = pairs @ (errors * (1 - errors))
                fit = fit._replace(together=(1 - (differ + _PAIRS) / (expected + _PAIRS)).clamp(0, 1))
            fit = fit._replace(theta=fit.theta + step, base=base / base.sum())
            if max(float((one - other).abs().max()) for one, other in zip(fit, before, strict=True)) < 1e-5:
                break
        return fit

    def _logits(self, fit: Fit) -> tuple[Float[Tensor, "c v"], Float[Tensor, "c v"]]:
        """P(t | x) of rewards that follow their prediction, and the prior's log-odds."""
        logits = fit.base.log() + (self.features @ fit.theta)[:, None] * self.grid
        following = self._shares(logits)
        if len(self.grid) == 2:
            return following, logits
        usual = self.weight @ following / self.weight.sum().clamp(min=_FLOOR)
        return following, ((1 - _SURPRISES) * following + _SURPRISES * usual).log()

    def independent(self, fit: Fit) -> Float[Tensor, "c v"]:
        """The counts, each row for what it adds to the others of its unit."""
        return self.counts / (1 + (self.counts.sum(dim=1, keepdim=True) - 1).clamp(min=0) * fit.together)

    def _evidence(self, fit: Fit) -> Float[Tensor, "c v"]:
        return self.independent(fit) * fit.ratio.log() + LIMIT * self.known

    def _shares(self, logits: Float[Tensor, "c v"]) -> Float[Tensor, "c v"]:
        """P(t); of two values by a softmax over the exclusive group and "none of them"."""
        if logits.shape[1] > 2:
            return logits.softmax(dim=1)
        odds, none = logits[:, 1] - logits[:, 0], logits.new_zeros(int(self.exclusive.max()) + 1)
        highest = none.scatter_reduce(0, self.exclusive, odds.detach(), "amax")
        likely = (odds - highest[self.exclusive]).exp()
        right = likely / (-highest).exp().index_add(0, self.exclusive, likely)[self.exclusive]
        return torch.stack([1 - right, right], dim=1)

    def _merged(self) -> Units:
        """Units of one bin of z and the same values as one."""
        place, mask = _bin(self.features[:, 0]), (self.counts > 0).double() @ 2.0 ** torch.arange(_BINS).double()
        found, of = (place + _BINS * mask).unique(return_inverse=True)
        counts = self.counts.new_zeros(len(found), _BINS).index_put((of,), self.counts)
        centres, weight = _CENTRES[(found % _BINS).long()], total(self.weight, of)
        return replace(
            self, counts=counts, known=0 * counts, features=centres[:, None], weight=weight, exclusive=of.unique()
        )


def verdict_units(
    rows: NoisyRows, z: Float[Tensor, " n"], verdict: Float[Tensor, " n"], judged: Bool[Tensor, " n"], exclusive: bool
) -> Units:
    """Answers and responses with the verdicts on them; `exclusive`: at most one answer of a group is right."""
    unit, compared, observed = rows.answer, judged & ~rows.trusted, verdict.long()
    size = total(torch.ones_like(z), unit)
    group = torch.zeros(len(size), dtype=torch.long).index_put((unit,), rows.group)
    answered = total(rows.answered, unit) > 0
    among = (total(rows.answered, rows.group) > 0)[group] & ~answered
    # A Beta rate of the verdicts on the rest of the group: with a row's own in it, it would explain its error.
    rest = _verdicts(rows.group, verdict, judged)[group] - _verdicts(unit, verdict, judged) + _RATE
    share = (size / total(torch.ones_like(z), rows.group)[group]).log()
    rate = (rest[:, 1] / rest[:, 0]).log()
    features = [answered, answered * share, total(z, unit) / size, among, ~(answered | among), ~answered * rate]
    alone, told = len(group) + torch.arange(len(group)), float(answered.double().mean())
    return Units(
        grid=torch.tensor([0.0, 1.0], dtype=torch.float64),
        unit=unit,
        observed=observed,
        compared=compared,
        counts=_verdicts(unit, verdict, compared),
        known=_verdicts(unit, verdict, judged & rows.trusted),
        features=torch.stack([each.double() for each in features], dim=1),
        weight=total(rows.weights, unit) / size,
        exclusive=torch.where(answered & exclusive, group, alone).unique(return_inverse=True)[1],
        start=_THETA,
        # Answers tell the flip rates; without them only the curvature of the odds in z does, and rates that are thought
        # too good would leave it unused.
        pseudo=(2 + 4 * told, 4 - 2 * told),
    )


def value_units(
    rows: NoisyRows, z: Float[Tensor, " n"], value: Float[Tensor, " n"], judged: Bool[Tensor, " n"]
) -> Units:
    """Responses with the bins of their rewards. Groups of equal rewards are judged in others' units, and not fitted."""
    unit, observed, used = rows.response, _bin(value), judged & ~rows.trusted & (value != 0)
    size = total(torch.ones_like(z), unit)
    counts = torch.zeros(len(size), _BINS).double().index_put((unit[judged], observed[judged]), torch.ones(()).double())
    return Units(
        grid=_CENTRES,
        unit=unit,
        observed=observed,
        # Of several values at most one is right, which m knows nothing of.
        compared=used & (total(judged, unit) == 1)[unit],
        counts=counts,
        known=0 * counts,
        features=(total(z, unit) / size)[:, None],
        weight=total(rows.weights * used, unit) / size,
        exclusive=torch.arange(len(size)),
        start=_SLOPE,
        pseudo=(0.0, 1 / _BINS),
    )


def _verdicts(label: Int[Tensor, " n"], verdict: Float[Tensor, " n"], rows: Bool[Tensor, " n"]) -> Float[Tensor, "m 2"]:
    """How many of the rows of each label have either verdict."""
    return torch.stack([total(rows * (1 - verdict), label), total(rows * verdict, label)], dim=1)


def _bin(values: Float[Tensor, " n"]) -> Int[Tensor, " n"]:
    return ((values + _EDGE) * (_BINS / (2 * _EDGE))).long().clamp(0, _BINS - 1)
