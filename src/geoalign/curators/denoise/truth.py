"""The true reward t behind a noisy one y: a prior from what speaks for a row, a channel from t to y.

Rows of one unit (one answer or one response to a prompt) share t. Of unit u, with eta_u the prediction of its rows,

    P(t = v) proportional to h(v) exp(eta_u v),    P(y | t) = (1 - e) 1{y = t} + e q(y),

so a claim y raises the odds of t = y by R(y) = 1 + (1 - e) / (e q(y)). Expectation maximisation fits h, eta, e and q on
the recent batches. With two values this is logistic regression behind flips at TPR = 1 - e (1 - q(1)), FPR = e q(1);
eta is linear in features, every verdict on a unit counts, and of the answered units of a group at most one is right.
With more, y is standardised within its group and stands in 32 bins, and a claim made twice is one claim.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.curators.denoise.rows import NoisyRows, total
from geoalign.method.advantages import group_advantages
from geoalign.method.intervals import Interval, jackknife

# Of the log-odds: what is certain.
LIMIT = 30.0
_EDGE, _BINS = 4.0, 32
_CENTRES = (torch.arange(_BINS, dtype=torch.float64) + 0.5) * (2 * _EDGE / _BINS) - _EDGE
# Of true rewards that follow no prediction, so that one that merely surprises is not taken for wrong.
_SURPRISES = 0.1
_FLOOR = 1e-30
# A reward is a verdict with something added where so many rewards lie this near, in units of the gap, to two values.
_VERDICTS, _NEAR = 0.95, 0.25
# Pseudo-counts of the Beta rate of a group: in one of two rows the other's verdict must not outweigh a row's own.
_RATE = 4.0
# Prior means of theta: answered, its log share, z, no answer among answers, no answers at all, log-odds of the group.
_THETA = (0.0, 1.0, 0.0, -2.0, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Belief:
    """What is believed of N rows.

    Attributes:
        log_odds: [N] that the reward is wrong; -inf where that is excluded.
        expected: [N] expected true reward e, in the units of the rewards; NaN where unscored.
        estimate: [N] what the row is given as its reward: e, matched in slope.
        variance: [N] variance of the true reward around e; `group_variance`: [N] that of the sum over the row's group.
        prior: [N] m, the expected true reward before the row's own was looked at.
        scale: [N] what a difference of rewards is measured in: the deviation of the row's group, the other groups'
            where its rewards are equal, or the difference of the two verdicts. 0 where all are equal.
        bounds: the two verdicts, between which the true one lies; None for other rewards.
        metrics: the model's figures.
    """

    log_odds: Float[Tensor, " n"]
    expected: Float[Tensor, " n"]
    estimate: Float[Tensor, " n"]
    variance: Float[Tensor, " n"]
    group_variance: Float[Tensor, " n"]
    prior: Float[Tensor, " n"]
    scale: Float[Tensor, " n"]
    bounds: tuple[float, float] | None
    metrics: dict[str, float]

    def __getitem__(self, rows: slice) -> Belief:
        cut: dict[str, Any] = {name: each[rows] for name, each in vars(self).items() if isinstance(each, Tensor)}
        return replace(self, **cut)

    @property
    def wrong(self) -> Float[Tensor, " n"]:
        """[N] probability that the reward is wrong."""
        return self.log_odds.sigmoid()

    def shifted(self, rest: Float[Tensor, " n"]) -> Belief:
        """The belief about these rewards plus a part that is no noise."""
        sums = {name: getattr(self, name) + rest for name in ("expected", "estimate", "prior")}
        return replace(self, **sums, bounds=None)

    def corrected(self, correction: Float[Tensor, " n"], rows: NoisyRows) -> Belief:
        """The belief with a correction, in units of `scale`, added to the expected rewards that are not known.

        Verdicts are then as likely wrong as they are far from the expected one. Of other rewards the probability is
        that of a single wrong one, and stays.
        """
        open_rows = rows.scored & ~rows.trusted & (self.scale > 0)
        expected = torch.where(open_rows, self.expected + self.scale * correction, self.expected)
        if self.bounds is None:
            return replace(self, expected=expected, estimate=self.estimate + (expected - self.expected))
        low, high = self.bounds
        expected = expected.clamp(low, high)
        nearest = torch.where(rows.rewards > (low + high) / 2, high, low)
        log_odds = torch.logit((nearest - expected).abs() / (high - low), eps=1e-13).clamp(-LIMIT, LIMIT)
        return replace(
            self,
            expected=expected,
            # A matched estimate may lie beyond the bounds: to clamp it would shrink it again.
            estimate=expected + (self.estimate - self.expected),
            variance=torch.where(open_rows, (expected - low) * (high - expected), self.variance),
            log_odds=torch.where(open_rows, log_odds, self.log_odds),
        )

    def advantages(self, group: Int[Tensor, " n"], *, eps: float = 1e-6) -> Float[Tensor, " n"]:
        """A = (t' - mean t') / (s + eps) with t' the estimates and s^2 = max(E[var t], var t') in the group.

        E[var t] = (sum (e - mean e)^2 + sum v - var(sum t) / n) / (n - 1). A group of which nothing is known is not
        blown up to unit deviation, and none goes beyond it.
        """
        known, size = ~self.expected.isnan(), int(group.max()) + 1
        count = torch.bincount(group[known], minlength=size).double()
        spread = total(group_advantages(self.expected, group, scale="none").square(), group, size)
        spread += total(
            (self.variance - self.group_variance / count[group].square()).masked_fill(~known, 0), group, size
        )
        centred = group_advantages(self.estimate, group, scale="none")
        spread = torch.maximum(spread, total(centred.square(), group, size))
        return centred / ((spread / (count - 1).clamp(min=1)).sqrt() + eps)[group]


def believe(
    rows: NoisyRows, z: Float[Tensor, " n"] | None, *, least_slope: float, exclusive: bool = True, share: bool = True
) -> Belief:
    """The belief about the rows' rewards, verdicts or others; where nothing speaks for a row its reward is right.

    Args:
        z: prediction of each row, of mean square 1; None: nothing is predicted.
        least_slope: least slope of the expected rewards on the true ones that estimates are matched by (`_matched`).
        exclusive: at most one of a group's answers is right; False: several may be.
        share: also the interval of the share of wrong rewards, which takes five more fits.
    """
    scored = rows.accompanied
    verdicts = _two_values(rows.rewards[scored])
    if verdicts is not None:
        if z is None and not bool((rows.answered & scored).any()) and not bool(rows.contradicted.any()):
            return _certain(rows)
        return _believe_verdicts(rows, z, verdicts, least_slope, exclusive, share)
    judged = scored & (_certain(rows).scale > 0) if z is not None else rows.contradicted
    return _believe_values(rows, z, judged, least_slope, share) if bool(judged.any()) else _certain(rows)


def _two_values(rewards: Float[Tensor, " n"]) -> tuple[float, float] | None:
    """The two verdicts: the only two values, or those near which nearly all rewards lie, the rest being added."""
    values = rewards.unique()
    if len(values) == 2:
        return float(values[0]), float(values[1])
    if len(values) < 2:
        return None
    centres = (values[0], values[-1])
    for _ in range(20):
        upper = rewards > (centres[0] + centres[1]) / 2
        centres = (rewards[~upper].median(), rewards[upper].median())
    near = torch.minimum((rewards - centres[0]).abs(), (rewards - centres[1]).abs()) <= _NEAR * (
        centres[1] - centres[0]
    )
    both = min(float(upper.double().mean()), float((~upper).double().mean())) >= 1 - _VERDICTS
    return (float(centres[0]), float(centres[1])) if both and float(near.double().mean()) >= _VERDICTS else None


def _certain(rows: NoisyRows) -> Belief:
    """The belief that every reward is right; before it was seen, the mean of its group was expected."""
    centred, size = group_advantages(rows.rewards, rows.group, scale="none"), int(rows.group.max()) + 1
    own = total(centred.abs(), rows.group, size) / total(rows.standardised.abs(), rows.group, size).clamp(min=_FLOOR)
    typical = own[own > 0].square().mean().sqrt() if bool((own > 0).any()) else own.new_zeros(())
    zero = torch.zeros_like(rows.rewards)
    metrics = {**_share_metrics(Interval(0.0, 0.0, 1.0)), "prediction_weight": 0.0}
    scale = torch.where(own > 0, own, typical)[rows.group]
    return Belief(zero - LIMIT, rows.rewards, rows.rewards, zero, zero, rows.rewards - centred, scale, None, metrics)


def _matched(
    prior: Tensor, expected: Tensor, variance: Tensor, weights: Tensor, group: Tensor, least: float
) -> tuple[Float[Tensor, " n"], float]:
    """t' = m + (e - m) / r and r = sum w (e - m)^2 / sum w ((e - m)^2 + v), the slope of e - m on t - m.

    r is `least` at least.
    E[t | y] shrinks what the prior m misses of t and not m: a policy trained on it drifts to what is easy to predict
    or frequent already. On average over the rows t' does not. Where a group's own slope is above r, as where the model
    is sure, that is taken. Rows of weight 0 keep e.
    """
    missed = (expected - prior).square()
    if not bool(weights @ missed > 0):
        return expected, 1.0
    slope = max(float(weights @ missed / (weights @ (missed + variance))), least)
    size = int(group.max()) + 1
    own = total(weights * missed, group, size) / total(weights * (missed + variance), group, size).clamp(min=_FLOOR)
    beyond = (expected - prior) * (1 / own.clamp(min=slope) - 1)[group]
    return torch.where(weights > 0, expected + beyond, expected), slope


@dataclass(frozen=True, eq=False)
class _Units:
    """Units of C answers or responses with the verdicts on them; units of equal `rivals` exclude each other."""

    member: Int[Tensor, " n"]
    rivals: Int[Tensor, " c"]
    features: Float[Tensor, "c f"]
    weights: Float[Tensor, " c"]
    yes: Float[Tensor, " c"]
    no: Float[Tensor, " c"]
    sure: Float[Tensor, " c"]

    def compete(self, odds: Float[Tensor, " c"]) -> Float[Tensor, " c"]:
        """P(unit is right): a softmax of the log-odds over the rivals and "none of them"."""
        count = int(self.rivals.max()) + 1
        highest = odds.new_zeros(count).scatter_reduce(0, self.rivals, odds, "amax")
        likely = (odds - highest[self.rivals]).exp()
        return likely / (-highest).exp().index_add(0, self.rivals, likely)[self.rivals]


@dataclass(frozen=True, eq=False)
class _VerdictModel:
    tpr: float
    fpr: float
    theta: Float[Tensor, " f"]

    def evidence(self, units: _Units) -> Float[Tensor, " c"]:
        """log P(verdicts | right) - log P(verdicts | wrong) of each unit."""
        rates = torch.tensor([self.tpr, self.fpr], dtype=torch.float64)
        yes, no = rates.log(), (1 - rates).log()
        return units.yes * (yes[0] - yes[1]) + units.no * (no[0] - no[1]) + units.sure

    def right(self, units: _Units) -> Float[Tensor, " c"]:
        return units.compete(units.features @ self.theta + self.evidence(units))


def _units(rows: NoisyRows, z: Float[Tensor, " n"] | None, yes: Bool[Tensor, " n"], exclusive: bool) -> _Units:
    member, scored = rows.answer, rows.accompanied
    count, groups = int(member.max()) + 1, int(rows.group.max()) + 1
    group = torch.zeros(count, dtype=torch.long).index_put((member,), rows.group)
    size = torch.bincount(member, minlength=count).double()
    answered = total(rows.answered, member, count) > 0
    among = (total(rows.answered, rows.group, groups) > 0)[group] & ~answered
    # The verdicts on the rest of the group, as a Beta rate: with a row's own in it, the rate would explain its error.
    rest = [
        total(each, rows.group, groups)[group] - total(each, member, count) for each in (yes & scored, ~yes & scored)
    ]
    rate = ((rest[0] + _RATE) / (rest[1] + _RATE)).log()
    mean = torch.zeros_like(size) if z is None else total(z, member, count) / size
    share = (size / torch.bincount(rows.group).double()[group]).log()
    features = torch.stack([answered, answered * share, mean, among, ~(answered | among), ~answered * rate], dim=1)
    own = torch.arange(count) + groups
    rivals = torch.where(answered & exclusive, group, own).unique(return_inverse=True)[1]
    open_rows = scored & ~rows.trusted
    sure = torch.where(yes, LIMIT, -LIMIT).double() * (scored & rows.trusted)
    sums = [total(each, member, count) for each in (yes & open_rows, ~yes & open_rows, sure)]
    return _Units(member, rivals, features.double(), total(rows.weights, member, count) / size, *sums)


def _fit_verdicts(units: _Units, model: _VerdictModel, *, rounds: int = 60) -> _VerdictModel:
    """Expectation maximisation: flip rates with pseudo-counts, theta by one Newton step a round.

    Answers tell the flip rates; without them only the curvature of the odds in z does, and rates that are thought too
    good would leave it unused. TPR is kept above FPR.
    """
    prior = torch.tensor(_THETA, dtype=torch.float64)
    share = float(units.features[:, 0].mean())
    counts = (16 * share + 6 * (1 - share), 4.0)
    for _ in range(rounds):
        truth, before = model.right(units), model
        hits, misses = units.weights * truth, units.weights * (1 - truth)
        tpr = (hits @ units.yes + counts[0]) / (hits @ (units.yes + units.no) + sum(counts))
        fpr = (misses @ units.yes + counts[1]) / (misses @ (units.yes + units.no) + sum(counts))
        middle = float(tpr + fpr) / 2
        expected, features = units.compete(units.features @ model.theta), units.features
        gradient = features.T @ (units.weights * (truth - expected)) - (model.theta - prior)
        weighed = features * (units.weights * expected)[:, None]
        # Rivals share a weight: they are of one group.
        mean = torch.zeros(int(units.rivals.max()) + 1, features.shape[1], dtype=torch.float64)
        weight = mean[:, 0].index_put((units.rivals,), units.weights)
        mean = mean.index_add(0, units.rivals, features * expected[:, None])
        hessian = features.T @ weighed - mean.T @ (mean * weight[:, None]) + torch.eye(len(prior), dtype=torch.float64)
        model = _VerdictModel(
            min(max(float(tpr), middle + 0.01, 1e-3), 1 - 1e-3),
            max(min(float(fpr), middle - 0.01, 1 - 1e-3), 1e-3),
            model.theta + torch.linalg.solve(hessian, gradient),
        )
        moved = (
            abs(model.tpr - before.tpr) + abs(model.fpr - before.fpr) + float((model.theta - before.theta).abs().max())
        )
        if moved < 1e-6:
            break
    return model


def _believe_verdicts(
    rows: NoisyRows,
    z: Float[Tensor, " n"] | None,
    verdicts: tuple[float, float],
    least_slope: float,
    exclusive: bool,
    share: bool,
) -> Belief:
    low, high = verdicts
    scored, yes = rows.accompanied, rows.rewards > (low + high) / 2
    units = _units(rows, z, yes, exclusive)
    model = _fit_verdicts(units, _VerdictModel(0.8, 0.2, torch.tensor(_THETA, dtype=torch.float64)))
    truth, unseen = model.right(units), units.compete(units.features @ model.theta)
    # Rows of one unit are right together, of rivals at most one is: E[s s'] of a group's sum s of rows.
    size = torch.bincount(units.member, minlength=len(truth)).double()
    count = int(units.rivals.max()) + 1
    sums = total(size.square() * truth, units.rivals, count) - total(size * truth, units.rivals, count).square()
    group = torch.zeros(len(truth), dtype=torch.long).index_put((units.member,), rows.group)
    of_rivals = torch.zeros(count, dtype=torch.long).index_put((units.rivals,), group)
    of_group = total(sums, of_rivals, int(rows.group.max()) + 1)[rows.group]
    judged = scored & ~rows.trusted
    expected, prior = torch.where(rows.trusted & scored, yes.double(), truth[units.member]), unseen[units.member]
    variance = expected * (1 - expected)
    estimate, slope = _matched(prior, expected, variance, rows.weights * judged, rows.group, least_slope)
    odds, known, span = torch.logit(expected, eps=1e-13), _certain(rows), high - low
    # What stands beside the verdict, such as a bonus for format, stays.
    rest = torch.where(scored, rows.rewards - torch.where(yes, high, low), 0.0)

    def wrong_share(given: _VerdictModel, counted: Bool[Tensor, " n"]) -> float:
        right = given.right(units)[units.member]
        wrong = torch.where(yes, 1 - right, right)[counted]
        return float(rows.weights[counted] @ wrong / rows.weights[counted].sum().clamp(min=_FLOOR))

    def without(left_out: Bool[Tensor, " n"]) -> float:
        kept = units.weights.index_put((units.member[left_out],), torch.zeros((), dtype=torch.float64))
        return wrong_share(_fit_verdicts(replace(units, weights=kept), model, rounds=10), judged & ~left_out)

    known_share = wrong_share(model, judged)
    interval = _leave_one_fold_out(known_share, rows, without) if share else Interval(known_share, 0.0, 1.0)
    belief = Belief(
        log_odds=torch.where(scored, torch.where(yes, -odds, odds).clamp(-LIMIT, LIMIT), known.log_odds),
        expected=torch.where(scored, low + span * expected, rows.rewards),
        estimate=torch.where(scored, low + span * estimate, rows.rewards),
        variance=span**2 * variance * scored,
        group_variance=span**2 * of_group * scored,
        prior=torch.where(scored, low + span * prior, rows.rewards),
        scale=torch.full_like(rows.rewards, span),
        bounds=verdicts,
        metrics={
            "true_positive_rate": model.tpr,
            "false_positive_rate": model.fpr,
            "informedness": model.tpr - model.fpr,
            **_share_metrics(interval),
            "cluster_prior": float(model.theta[1]) if bool(rows.answered.any()) else torch.nan,
            "prediction_weight": float(model.theta[2]),
            "recovered": slope,
        },
    )
    return belief.shifted(rest) if bool(rest.any()) else belief


@dataclass(frozen=True, eq=False)
class _ValueModel:
    """The share e of replaced rewards, slope of the kept ones on z, h, the kept ones' average distribution, and q."""

    replaced: float
    slope: float
    base: Float[Tensor, " bins"]
    kept: Float[Tensor, " bins"]
    anywhere: Float[Tensor, " bins"]

    def following(self, z: Float[Tensor, " n"]) -> Float[Tensor, "n bins"]:
        """P(t | z) of the rewards that follow their prediction."""
        return (self.base.log() + self.slope * z[:, None] * _CENTRES).softmax(dim=1)

    def prior(self, z: Float[Tensor, " n"]) -> Float[Tensor, "n bins"]:
        return (1 - _SURPRISES) * self.following(z) + _SURPRISES * self.kept

    @property
    def least_share(self) -> float:
        """The part of e that kept rewards which follow no prediction cannot explain, however many they are.

        Both have no regard for z; together they are distributed as n(y) = e q(y) + (1 - e) surprises k(y). As many
        surprises as fit, kappa = min n(y) / k(y) over bins as wide as a deviation, leave the sum of n - kappa k.
        """
        wide = _BINS // int(2 * _EDGE)
        kept = self.kept.view(-1, wide).sum(dim=1)
        either = self.replaced * self.anywhere.view(-1, wide).sum(dim=1) + (1 - self.replaced) * _SURPRISES * kept
        common = kept > 0.02
        kappa = (either / kept)[common].min() if bool(common.any()) else 0.0
        return float((either - kappa * kept).clamp(min=0).sum())


def _fit_values(counted: Float[Tensor, "bins bins"], model: _ValueModel, *, rounds: int = 100) -> _ValueModel:
    """Expectation maximisation on the weights of rows in each bin of z (down) and y (across), however many rows."""
    every = counted.sum().clamp(min=_FLOOR)
    for _ in range(rounds):
        following = model.following(_CENTRES)
        kept = (1 - model.replaced) * model.prior(_CENTRES)
        right = kept / (kept + model.replaced * model.anywhere).clamp(min=_FLOOR)
        likely = counted * right
        obeying = (1 - _SURPRISES) * following
        obeying = likely * obeying / (obeying + _SURPRISES * model.kept).clamp(min=_FLOOR)
        mean = following @ _CENTRES
        variance = following @ _CENTRES.square() - mean.square()
        gradient = (obeying * _CENTRES[:, None] * (_CENTRES - mean[:, None])).sum()
        curvature = obeying.sum(dim=1) @ (_CENTRES.square() * variance)
        ratio = (likely.sum(dim=0) + 1 / _BINS) / (likely.sum(dim=1) @ following + 1 / _BINS)
        wrong = (counted * (1 - right)).sum(dim=0)
        model = _ValueModel(
            replaced=float(wrong.sum() / every),
            slope=max(0.0, model.slope + float(gradient / (curvature + 1e-6))),
            base=_normalised((model.base * ratio).clamp(min=_FLOOR), 0.0),
            kept=counted.sum(dim=1) @ following / every,
            anywhere=_normalised(wrong, 1 / _BINS),
        )
    return model


def _believe_values(
    rows: NoisyRows, z: Float[Tensor, " n"] | None, judged: Bool[Tensor, " n"], least_slope: float, share: bool
) -> Belief:
    """Rewards of more than two values. Groups of equal rewards stay out of the fit, and are judged in others' units."""
    known = _certain(rows)
    y = rows.standardised[judged]
    predicted = torch.zeros_like(y) if z is None else z[judged]
    response = rows.response[judged].unique(return_inverse=True)[1]
    open_rows = ~rows.trusted[judged]
    weights = (rows.weights * (rows.standardised != 0))[judged] * open_rows
    cell = _bin(predicted) * _BINS + _bin(y)

    def table(counted: Tensor) -> Tensor:
        return total(counted, cell, _BINS * _BINS).view(_BINS, _BINS)

    # From a small slope the fit can end where the most extreme rewards are believed, however many they are.
    marginal = _normalised(table(weights).sum(dim=0), 1 / _BINS)
    even = torch.full((_BINS,), 1 / _BINS, dtype=torch.float64)
    model = _fit_values(table(weights), _ValueModel(0.2, 4.0, marginal, marginal, even))
    error = min(max(model.replaced, 1e-6), 1 - 1e-6)
    odds = (1 - error) / (error * model.anywhere.clamp(min=_FLOOR))
    prior = model.prior(predicted)
    # Of each response, what was claimed of it and where in its bins.
    claims = torch.zeros(int(response.max()) + 1, _BINS, dtype=torch.float64)
    times = claims.index_put((response, _bin(y)), torch.ones_like(y), accumulate=True)
    values = claims.index_put((response, _bin(y)), y, accumulate=True) / times.clamp(min=1)
    values = torch.where(times > 0, values, _CENTRES)[response]
    truth = prior * (1 + (times > 0) * odds)[response]
    truth = truth / truth.sum(dim=1, keepdim=True)
    mean, scale = known.prior[judged], known.scale[judged]
    own = _bin(y)[:, None]
    kept = (truth.gather(1, own) * (odds / (1 + odds))[own])[:, 0].masked_fill(~open_rows, 1.0)
    expected = torch.where(open_rows, (truth * values).sum(dim=1), y)
    variance = ((truth * values.square()).sum(dim=1) - expected.square()).clamp(min=0) * open_rows
    before = prior @ _CENTRES
    # Only single claims that are compared with others are matched.
    single = (times.sum(dim=1) == 1)[response]
    estimate, slope = _matched(before, expected, variance, weights * single, rows.group[judged], least_slope)

    def put(into: Tensor, found: Tensor) -> Tensor:
        return into.masked_scatter(judged, found)

    def without(left_out: Bool[Tensor, " n"]) -> float:
        return _fit_values(table(weights * ~left_out[judged]), model, rounds=10).least_share

    least = _leave_one_fold_out(model.least_share, rows, without) if share else Interval(model.least_share, 0.0, 1.0)
    every = weights @ (1 - kept) / weights.sum().clamp(min=_FLOOR)
    # Rows that are not judged are right.
    counted = rows.weights * rows.scored * ~rows.trusted
    part = float((counted * judged).sum() / counted.sum().clamp(min=_FLOOR))
    within = put(known.variance, scale.square() * variance)
    # Rows of one response share its true reward.
    together = within * torch.bincount(rows.response)[rows.response]
    return replace(
        known,
        log_odds=put(known.log_odds, torch.logit(1 - kept, eps=1e-13).clamp(-LIMIT, LIMIT)),
        expected=put(known.expected, mean + scale * expected),
        estimate=put(known.estimate, mean + scale * estimate),
        variance=within,
        group_variance=total(together, rows.group, int(rows.group.max()) + 1)[rows.group],
        prior=put(known.prior, mean + scale * before),
        metrics={
            **_share_metrics(Interval(part * least.estimate, part * least.low, part * max(least.high, float(every)))),
            "prediction_weight": model.slope,
            "recovered": slope,
        },
    )


def _bin(values: Float[Tensor, " n"]) -> Int[Tensor, " n"]:
    return ((values + _EDGE) * (_BINS / (2 * _EDGE))).long().clamp(0, _BINS - 1)


def _normalised(counts: Float[Tensor, " bins"], pseudo: float) -> Float[Tensor, " bins"]:
    return (counts + pseudo) / (counts + pseudo).sum()


def _share_metrics(share: Interval) -> dict[str, float]:
    low, high = min(max(share.low, 0.0), share.estimate), max(min(share.high, 1.0), share.estimate)
    return {"wrong_share": share.estimate, "wrong_share_low": low, "wrong_share_high": high}


def _leave_one_fold_out(
    estimate: float, rows: NoisyRows, estimate_without: Callable[[Bool[Tensor, " n"]], float]
) -> Interval:
    """The estimate with the jackknife's interval over folds of groups; bounds of 0 and 1 with one group."""
    blocks = rows.fold.unique().tolist()
    if len(blocks) < 2:
        return Interval(estimate, 0.0, 1.0)
    return jackknife(estimate, [estimate_without(rows.fold == index) for index in blocks])
