"""The true reward t behind a noisy one y: a prior from what speaks for a row, a channel from t to y.

Rows of one unit (one answer or one response to a prompt) share t. Of unit u, with eta_u the prediction of its rows,

    P(t = v) proportional to h(v) exp(eta_u v),    P(y | t) = (1 - e) 1{y = t} + e q(y),

so a claim y raises the odds of t = y by R(y) = 1 + (1 - e) / (e q(y)). Expectation maximisation fits h, eta, e and q on
the recent batches. With two values this is logistic regression behind flips at TPR = 1 - e (1 - q(1)), FPR = e q(1);
eta is linear in features, every verdict on a unit counts, and of the answered units of a group at most one is right.
With more, y is standardised within its group and stands in 32 bins, and a claim made twice is one claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.method.advantages import group_advantages
from geoalign.method.groups import GroupedRows, content_folds
from geoalign.types import Rollouts

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
_THETA = torch.tensor([0.0, 1.0, 0.0, -2.0, 0.0, 1.0], dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class NoisyRows:
    """Rows as the noise model reads them: on the CPU, in sorted order, numbers in float64; groups and labels dense."""

    rewards: Float[Tensor, " n"]  # as observed, or the component that is noisy; NaN where unscored
    group: Int[Tensor, " n"]
    fold: Int[Tensor, " n"]  # of the row's group
    response: Int[Tensor, " n"]  # rows of equal number gave the same response
    answer: Int[Tensor, " n"]  # rows of equal number gave the same answer or, without one, the same response
    answered: Bool[Tensor, " n"]
    trusted: Bool[Tensor, " n"]  # whether the reward is known to be true
    unseen: Bool[Tensor, " n"]  # whether the fits have not seen the row's prompt before
    predictions: Float[Tensor, "n s 2"]  # of each state, by fits on either kind of rows (`fitted_on`) of other batches
    inflation: Float[Tensor, " n"]  # factor on the variance of the predictions' agreement with the rewards
    weights: Float[Tensor, " n"]  # in the fits, equal within a group

    @property
    def scored(self) -> Bool[Tensor, " n"]:
        """Whether the row has a reward."""
        return ~self.rewards.isnan()

    @property
    def standardised(self) -> Float[Tensor, " n"]:
        """The rewards standardised within their groups; 0 in groups of one or of equal rewards, and where unscored."""
        return group_advantages(self.rewards, self.group)

    @property
    def accompanied(self) -> Bool[Tensor, " n"]:
        """Scored rows of groups with two rewards at least."""
        return self.scored & (torch.bincount(self.group, weights=self.scored.double()) >= 2)[self.group]

    @property
    def contradicted(self) -> Bool[Tensor, " n"]:
        """Scored rows whose response was also given another reward, not only rounded otherwise."""
        low, high = _extremes(self.standardised.masked_fill(~self.scored, torch.nan), self.response)
        return self.scored & (high - low > 1e-3)

    @property
    def fitted_on(self) -> Bool[Tensor, "n 2"]:
        """[N, 2] the rows that states are fitted to and tested on: all of unequal groups, or those between extremes.

        Rewards that are wrong by far stand at the extremes of their groups, where right ones are rare: between them
        the rewards may agree with the states where over all rows they do not. Trusted rows have a fit of their own.
        """
        unequal = (self.standardised != 0) & ~self.trusted
        low, high = _extremes(self.rewards, self.group)
        return torch.stack([unequal, unequal & (self.rewards > low) & (self.rewards < high)], dim=1)


def noisy_rows(
    rollouts: Rollouts,
    order: GroupedRows,
    *,
    answers: bool,
    rewards: Float[Tensor, " b"] | None = None,
    seen: Sequence[Int[Tensor, " p"]] = (),
) -> NoisyRows:
    """The batch in sorted order, without predictions; rows without `response_keys` are responses of their own.

    Args:
        rewards: [B] the noisy part of the rewards; None: the rewards.
        seen: prompt keys of earlier batches.
    """
    index, group = order.order.cpu(), order.group.cpu()
    keys = index if rollouts.response_keys is None else rollouts.response_keys.cpu()[index]
    responses = list(zip(group.tolist(), keys.tolist(), strict=True))
    told = rollouts.answers if answers and rollouts.answers is not None else [None] * len(index)
    given = [told[row] for row in index.tolist()]
    units = [one if answer is None else (one[0], str(answer)) for one, answer in zip(responses, given, strict=True)]
    noisy = (rollouts.rewards if rewards is None else rewards).cpu().double()[index]
    content = noisy.nan_to_num() if rollouts.hidden is None else rollouts.hidden[order.order].double().sum(1).cpu()
    trusted = unseen = torch.zeros(len(index), dtype=torch.bool)
    if rollouts.trusted is not None:
        trusted = rollouts.trusted.cpu()[index] & ~noisy.isnan()
    if seen and rollouts.prompt_keys is not None:
        unseen = torch.isin(rollouts.prompt_keys.cpu()[index], torch.cat(list(seen)))
    return NoisyRows(
        rewards=noisy,
        group=group,
        fold=content_folds(content, group),
        response=_dense(responses),
        answer=_dense(units),
        answered=torch.tensor([answer is not None for answer in given]),
        trusted=trusted,
        # Of trusted rows the fits learn nothing.
        unseen=~unseen | trusted,
        predictions=noisy.new_zeros(len(index), 1, 2),
        inflation=torch.ones_like(noisy),
        weights=torch.ones_like(noisy),
    )


def joined(batches: Sequence[NoisyRows], decay: float) -> NoisyRows:
    """Several batches as one, the last one last, with weights decay^age; groups and labels stay apart."""
    parts, first = [], {"group": 0, "response": 0, "answer": 0}
    for age, batch in zip(range(len(batches) - 1, -1, -1), batches, strict=True):
        apart = {name: getattr(batch, name) + start for name, start in first.items()}
        first = {name: int(label.max()) + 1 for name, label in apart.items()}
        parts.append(vars(replace(batch, weights=batch.weights * decay**age, **apart)))
    return NoisyRows(**{name: torch.cat([part[name] for part in parts]) for name in parts[0]})


@dataclass(frozen=True, eq=False)
class Belief:
    """What is believed of rows whose rewards are offset + scale * claim; prior to variance are in units of `scale`."""

    observed: Float[Tensor, " n"]  # the rewards
    claim: Float[Tensor, " n"]  # the verdict, 0 or 1, or the reward standardised within its group
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

    def __getitem__(self, rows: slice) -> Belief:
        cut: dict[str, Any] = {name: each[rows] for name, each in vars(self).items() if isinstance(each, Tensor)}
        return replace(self, **cut)

    @property
    def log_odds(self) -> Float[Tensor, " n"]:
        """[N] that the reward is wrong."""
        return torch.logit(self.wrong, eps=1e-13).clamp(-LIMIT, LIMIT)

    @property
    def expected(self) -> Float[Tensor, " n"]:
        """[N] the expected true reward; NaN where unscored."""
        return self.offset + self.scale * self.mean

    @property
    def rewards(self) -> Float[Tensor, " n"]:
        """[N] what the rows are given as their rewards: their own where nothing is to be changed."""
        return torch.where(self.estimate == self.claim, self.observed, self.offset + self.scale * self.estimate)

    def corrected(self, correction: Float[Tensor, " n"]) -> Belief:
        """The belief with a correction added to the expected rewards; 0 leaves a row as it is.

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
            wrong=torch.where(changed, (self.claim - mean).abs(), self.wrong),
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


def believe(rows: NoisyRows, z: Float[Tensor, " n"] | None, *, least_slope: float, exclusive: bool = True) -> Belief:
    """The belief about the rows' rewards, verdicts or others; where nothing speaks for a row its reward is right.

    Estimates are t' = m + (e - m) / r, r = sum w (e - m)^2 / sum w ((e - m)^2 + v), the slope of e - m on t - m, or a
    group's own where that is higher, as where the model is sure.

    Args:
        z: prediction of each row, of mean square 1; None: nothing is predicted.
        least_slope: r is this at least.
        exclusive: at most one of a group's answers is right; False: several may be.
    """
    scored, group, zero = rows.accompanied, rows.group, torch.zeros_like(rows.rewards)
    verdicts, claim = _two_values(rows.rewards[scored]), rows.standardised
    if verdicts is not None:
        low, high = verdicts
        claim, unit = (rows.rewards > (low + high) / 2).double(), rows.answer
        scale = torch.full_like(zero, high - low)
        speaks = z is not None or bool((rows.answered & scored).any() | rows.contradicted.any())
        judged = scored & speaks
        offset = rows.rewards - scale * claim
    else:
        centred, unit = group_advantages(rows.rewards, group, scale="none"), rows.response
        own = (total(centred.square(), group) / (total(rows.scored, group) - 1).clamp(min=1)).sqrt()
        typical = own[own > 0].square().mean().sqrt() if bool((own > 0).any()) else 0.0
        scale, offset = torch.where(own > 0, own, typical)[group], rows.rewards - centred
        judged = scored & (scale > 0) if z is not None else rows.contradicted
    before = claim - group_advantages(claim.masked_fill(~rows.scored, torch.nan), group, scale="none")
    if not bool(judged.any()):
        certain = (before, claim, claim, zero, zero, zero, {"wrong_share": 0.0, "wrong_share_high": 1.0})
        return Belief(rows.rewards, claim, offset, scale, False, *certain)
    model: Any
    z = zero if z is None else z
    model = Verdicts(rows, z, claim, judged, exclusive) if verdicts else _Values(rows, z, claim, judged)
    fitted = model.fit(rows.weights)
    prior, mean, variance, wrong = model.posterior(fitted)
    open_rows = judged & ~rows.trusted
    mean, prior = torch.where(open_rows, mean, claim), torch.where(judged, prior, before)
    variance, wrong = variance * open_rows, wrong * open_rows
    weights = rows.weights * model.compared
    missed = (mean - prior).square()
    slope = max(float(weights @ missed / (weights @ (missed + variance)).clamp(min=_FLOOR)), least_slope)
    sure = total(weights * missed, group) / total(weights * (missed + variance), group).clamp(min=_FLOOR)
    estimate = torch.where(weights > 0, mean + (mean - prior) * (1 / sure.clamp(min=slope) - 1)[group], mean)
    # Rows of one unit are right together, of rivals at most one is: E[s s'] of the sum s of a group's rows.
    likely, rival = mean * open_rows, len(group) + unit
    if exclusive and verdicts is not None:
        rival = torch.where(rows.answered, group, rival)
    beside = total(likely, rival)[rival]
    together = total(open_rows, unit)[unit] * (variance + likely.square()) - likely * beside
    counted = rows.weights * (rows.scored & ~rows.trusted)
    share = float(counted @ wrong / counted.sum().clamp(min=_FLOOR))
    metrics = {"wrong_share": share, "wrong_share_high": share, "recovered": slope, **model.rates(fitted)}
    found = (prior, mean, estimate, variance, total(together, group)[group], wrong, metrics)
    return Belief(rows.rewards, claim, offset, scale, verdicts is not None, *found)


def _two_values(rewards: Float[Tensor, " n"]) -> tuple[float, float] | None:
    """The two verdicts: the only two values, or those near which nearly all rewards lie, the rest being added."""
    values = rewards.unique()
    if len(values) <= 2:
        return (float(values[0]), float(values[1])) if len(values) == 2 else None
    low, high = values[0], values[-1]
    for _ in range(20):
        upper = rewards > (low + high) / 2
        low, high = rewards[~upper].median(), rewards[upper].median()
    near = torch.minimum((rewards - low).abs(), (rewards - high).abs()) <= _NEAR * (high - low)
    share = float(upper.double().mean())
    common = min(share, 1 - share) >= 1 - _VERDICTS and float(near.double().mean()) >= _VERDICTS
    return (float(low), float(high)) if common else None


class Flips(NamedTuple):
    """The rates of TPR and FPR, and the weights of the features."""

    rates: Float[Tensor, " 2"]
    theta: Float[Tensor, " f"]


class Verdicts:
    """Units of C answers or responses with the verdicts on them; units of equal `rivals` exclude each other."""

    def __init__(self, rows: NoisyRows, z: Tensor, claim: Tensor, judged: Bool[Tensor, " n"], exclusive: bool) -> None:
        unit, self.claim, self.compared = rows.answer, claim, judged & ~rows.trusted
        self.unit, self.size = unit, total(torch.ones_like(claim), unit)
        self.group = group = torch.zeros(len(self.size), dtype=torch.long).index_put((unit,), rows.group)
        answered = total(rows.answered, unit) > 0
        among = (total(rows.answered, rows.group) > 0)[group] & ~answered
        both = torch.stack([claim * judged, (1 - claim) * judged])
        # A Beta rate of the verdicts on the rest of the group: with a row's own in it, it would explain its error.
        rest = torch.stack([total(each, rows.group)[group] - total(each, unit) for each in both])
        rate = ((rest[0] + _RATE) / (rest[1] + _RATE)).log()
        share = (self.size / torch.bincount(rows.group)[group]).log()
        features = [
            answered,
            answered * share,
            total(z, unit) / self.size,
            among,
            ~(answered | among),
            ~answered * rate,
        ]
        self.features = torch.stack([each.double() for each in features], dim=1)
        self.rivals = torch.where(answered & exclusive, group, len(group) + torch.arange(len(group)))
        self.rivals = self.rivals.unique(return_inverse=True)[1]
        self.verdicts = torch.stack([total(each * ~rows.trusted, unit) for each in both])
        self.sure = LIMIT * total((both[0] - both[1]) * rows.trusted, unit)
        # Answers tell the flip rates; without them only the curvature of the odds in z does, and rates that are thought
        # too good would leave it unused.
        self.pseudo = torch.tensor([6 + 10 * float(answered.double().mean()), 4.0], dtype=torch.float64)

    def _odds(self, model: Flips) -> tuple[Float[Tensor, " c"], Float[Tensor, " c"]]:
        """Log-odds that the unit alone is right, before its verdicts are seen and after."""
        odds, ratios = self.features @ model.theta, torch.stack([model.rates, 1 - model.rates]).log()
        return odds, odds + (ratios[:, 0] - ratios[:, 1]) @ self.verdicts + self.sure

    def _compete(self, odds: Float[Tensor, " c"]) -> tuple[Float[Tensor, " c"], Float[Tensor, " r"]]:
        """P(unit is right), a softmax over the rivals and "none of them"; and the logarithm of its sum."""
        none = odds.new_zeros(int(self.rivals.max()) + 1)
        highest = none.scatter_reduce(0, self.rivals, odds.detach(), "amax")
        likely = (odds - highest[self.rivals]).exp()
        every = (-highest).exp().index_add(0, self.rivals, likely)
        return likely / every[self.rivals], highest + every.log()

    def right(self, model: Flips) -> tuple[Float[Tensor, " c"], Float[Tensor, " c"]]:
        """P(unit is right) before its verdicts are seen, and after."""
        before, after = (self._compete(odds)[0] for odds in self._odds(model))
        return before, after

    def likelihood(self, model: Flips) -> Float[Tensor, " g"]:
        """[G] log P(verdicts of the group)."""
        before, after = (self._compete(odds)[1] for odds in self._odds(model))
        of = torch.zeros(len(after), dtype=torch.long).index_put((self.rivals,), self.group)
        # Of no unit that is right, by P(verdicts | wrong), times how much likelier the units make them.
        wrong = torch.stack([model.rates[1].log(), (1 - model.rates[1]).log()]) @ self.verdicts
        groups = wrong.new_zeros(int(self.group.max()) + 1)
        return groups.index_add(0, of, after - before).index_add(0, self.group, wrong)

    def penalty(self, model: Flips) -> Float[Tensor, ""]:
        """Log-density of the priors: pseudo-counts of the rates, theta around its means."""
        rates = self.pseudo * model.rates.log() + self.pseudo.flip(0) * (1 - model.rates).log()
        return rates.sum() - (model.theta - _THETA).square().sum() / 2

    def fit(self, weights: Float[Tensor, " n"], start: Flips | None = None, *, rounds: int = 60) -> Flips:
        """Expectation maximisation: flip rates with pseudo-counts, theta by one Newton step; TPR stays above FPR."""
        model = start or Flips(torch.tensor([0.8, 0.2], dtype=torch.float64), _THETA)
        weight, features = total(weights, self.unit) / self.size, self.features
        for _ in range(rounds):
            (expected, truth), before = self.right(model), model
            likely = torch.stack([truth, 1 - truth]) * weight
            rates = (likely @ self.verdicts[0] + self.pseudo) / (likely @ self.verdicts.sum(dim=0) + self.pseudo.sum())
            apart = ((rates[0] - rates[1]) / 2).clamp(min=0.01) * rates.new_tensor([1.0, -1.0])
            gradient = features.T @ (weight * (truth - expected)) - (model.theta - _THETA)
            # Rivals share a weight: they are of one group.
            mean = features.new_zeros(int(self.rivals.max()) + 1, len(_THETA))
            mean = mean.index_add(0, self.rivals, features * (expected * weight.sqrt())[:, None])
            hessian = (
                features.T @ (features * (weight * expected)[:, None]) - mean.T @ mean + torch.eye(len(_THETA)).double()
            )
            model = Flips(
                (rates.mean() + apart).clamp(1e-3, 1 - 1e-3), model.theta + torch.linalg.solve(hessian, gradient)
            )
            if float((torch.cat(model) - torch.cat(before)).abs().max()) < 1e-6:
                break
        return model

    def posterior(self, model: Flips) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """m, e, v and P(wrong) of each row."""
        prior, mean = (each[self.unit] for each in self.right(model))
        return prior, mean, mean * (1 - mean), (self.claim - mean).abs()

    def rates(self, model: Flips) -> dict[str, float]:
        tpr, fpr = model.rates.tolist()
        return {"true_positive_rate": tpr, "false_positive_rate": fpr, "informedness": tpr - fpr}


class _Channel(NamedTuple):
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


class _Values:
    """Rewards of more than two values. Groups of equal rewards stay out of the fit, and are judged in others' units."""

    def __init__(self, rows: NoisyRows, z: Tensor, claim: Tensor, judged: Bool[Tensor, " n"]) -> None:
        self.judged, self.z = judged, z
        self.used = judged & ~rows.trusted & (claim != 0)
        self.bin = _bin(claim)
        # Of each response, what was claimed of it and where in its bins.
        self.response = rows.response
        claims = claim.new_zeros(int(rows.response.max()) + 1, _BINS)
        at = (rows.response[judged], self.bin[judged])
        self.times = claims.index_put(at, judged[judged].double(), accumulate=True)
        values = claims.index_put(at, claim[judged], accumulate=True) / self.times.clamp(min=1)
        self.values = torch.where(self.times > 0, values, _CENTRES)
        # Only single claims that are compared with others are matched in slope.
        self.compared = self.used & (self.times.sum(dim=1) == 1)[rows.response]

    def fit(self, weights: Float[Tensor, " n"], start: _Channel | None = None, *, rounds: int = 100) -> _Channel:
        """Expectation maximisation on the weights of rows in each bin of z (down) and claim (across)."""
        counted = total(weights * self.used, _bin(self.z) * _BINS + self.bin, _BINS * _BINS).view(_BINS, _BINS)
        every, model = counted.sum().clamp(min=_FLOOR), start
        if model is None:
            # From a small slope the fit can end where the most extreme rewards are believed, however many they are.
            marginal = _normalised(counted.sum(dim=0) + 1 / _BINS)
            model = _Channel(0.2, 4.0, marginal, marginal, torch.full_like(marginal, 1 / _BINS))
        for _ in range(rounds):
            following = model.following(_CENTRES)
            kept = (1 - model.replaced) * model.prior(_CENTRES)
            right = kept / (kept + model.replaced * model.anywhere).clamp(min=_FLOOR)
            likely, wrong = counted * right, (counted * (1 - right)).sum(dim=0)
            obeying = (1 - _SURPRISES) * following
            obeying = likely * obeying / (obeying + _SURPRISES * model.kept).clamp(min=_FLOOR)
            mean = following @ _CENTRES
            variance = following @ _CENTRES.square() - mean.square()
            gradient = (obeying * _CENTRES[:, None] * (_CENTRES - mean[:, None])).sum()
            curvature = obeying.sum(dim=1) @ (_CENTRES.square() * variance)
            ratio = (likely.sum(dim=0) + 1 / _BINS) / (likely.sum(dim=1) @ following + 1 / _BINS)
            model = _Channel(
                replaced=float(wrong.sum() / every),
                slope=max(0.0, model.slope + float(gradient / (curvature + 1e-6))),
                base=_normalised((model.base * ratio).clamp(min=_FLOOR)),
                kept=counted.sum(dim=1) @ following / every,
                anywhere=_normalised(wrong + 1 / _BINS),
            )
        return model

    def posterior(self, model: _Channel) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """m, e, v and P(wrong) of each row."""
        error = min(max(model.replaced, 1e-6), 1 - 1e-6)
        odds = (1 - error) / (error * model.anywhere.clamp(min=_FLOOR))
        prior, values = model.prior(self.z), self.values[self.response]
        truth = prior * (1 + (self.times > 0) * odds)[self.response]
        truth = truth / truth.sum(dim=1, keepdim=True)
        kept = (truth * (odds / (1 + odds))).gather(1, self.bin[:, None])[:, 0]
        mean = (truth * values).sum(dim=1)
        return prior @ _CENTRES, mean, ((truth * values.square()).sum(dim=1) - mean.square()).clamp(min=0), 1 - kept

    def rates(self, model: _Channel) -> dict[str, float]:
        """The part of e that kept rewards which follow no prediction cannot explain, however many they are.

        Both have no regard for z; together they are distributed as n(y) = e q(y) + (1 - e) surprises k(y). As many
        surprises as fit, kappa = min n(y) / k(y) over bins as wide as a deviation, leave the sum of n - kappa k.
        """
        kept, anywhere = (each.view(-1, _BINS // int(2 * _EDGE)).sum(dim=1) for each in (model.kept, model.anywhere))
        either = model.replaced * anywhere + (1 - model.replaced) * _SURPRISES * kept
        kappa = (either / kept)[kept > 0.02].min() if bool((kept > 0.02).any()) else 0.0
        return {"wrong_share": float((either - kappa * kept).clamp(min=0).sum())}


def total(values: Tensor, label: Int[Tensor, " n"], size: int = 0) -> Float[Tensor, " m"]:
    """[M] the sum over the rows of each label."""
    return torch.bincount(label, weights=values.double(), minlength=size)


def _extremes(values: Float[Tensor, " n"], label: Int[Tensor, " n"]) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """[N] the least and the greatest value of each row's label, NaN left out; inf and -inf where there is none."""
    empty, known = values.new_full((int(label.max()) + 1,), torch.inf), values.nan_to_num(torch.inf)
    low = empty.scatter_reduce(0, label, known, "amin")
    return low[label], (-empty).scatter_reduce(0, label, values.nan_to_num(-torch.inf), "amax")[label]


def _dense(labels: Sequence[object]) -> Int[Tensor, " n"]:
    """Equal labels get equal numbers, from 0 in order of appearance."""
    known: dict[object, int] = {}
    return torch.tensor([known.setdefault(label, len(known)) for label in labels], dtype=torch.long)


def _bin(values: Float[Tensor, " n"]) -> Int[Tensor, " n"]:
    return ((values + _EDGE) * (_BINS / (2 * _EDGE))).long().clamp(0, _BINS - 1)


def _normalised(counts: Float[Tensor, " bins"]) -> Float[Tensor, " bins"]:
    return counts / counts.sum()
