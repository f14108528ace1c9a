"""From rows and their predictions to a belief about every reward: what `Denoise` and its controls share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.method.advantages import group_advantages
from geoalign.method.correlation import grouped_correlation
from geoalign.method.groups import GroupedRows
from geoalign.method.intervals import Interval, jackknife
from geoalign.method.replaced_rewards import (
    Claims,
    ReplacementModel,
    fit_replacement,
    initial_model,
    replaced_rewards,
)
from geoalign.method.verdicts import Clusters, VerdictModel, cluster_probabilities, fit_verdicts, row_probabilities
from geoalign.types import Rollouts

# Prior of theta on the features of a cluster: constant, log share, prediction, and no answer (exclusive clusters) or
# the verdicts on the rest of the group (others).
_EXCLUSIVE_PRIOR = (0.0, 1.0, 0.0, -2.0)
_INDEPENDENT_PRIOR = (0.0, 0.0, 0.0, 1.0)
# Pseudo-counts of right and wrong verdicts. Answers tell the flip rates; without them only the curvature of the odds in
# the prediction does, and rates that are thought too good would leave it unused.
_EXCLUSIVE_COUNTS, _INDEPENDENT_COUNTS = (16.0, 4.0), (6.0, 4.0)
_LIMIT = 30.0
# Rewards of one response that are no further apart, in deviations of the group, are one reward.
_ROUNDING = 1e-3
# Of groups, left out in turn for the interval of the share of wrong rewards; and what refitting without one takes.
_BLOCKS, _REFIT_ROUNDS = 5, 10


@dataclass(frozen=True, eq=False)
class NoisyRows:
    """Rows of one batch or of several as the noise models read them: on the CPU, in sorted order, numbers in float64.

    Attributes:
        rewards: [N] as observed; NaN where unscored.
        group: [N] dense group index.
        response: [N] rows of equal number gave the same response.
        answer: [N] rows of equal number gave the same answer or, without one, the same response.
        answered: [N] whether the row has an answer.
        trusted: [N] whether the reward is known to be true.
        predictions: [N, S, 2] by each state, fitted on either kind of rows (`fitted_on`) of other batches.
        inflation: [N] factor on the variance of the predictions' agreement with the rewards.
        weights: [N] weight in the fits.
    """

    rewards: Float[Tensor, " n"]
    group: Int[Tensor, " n"]
    response: Int[Tensor, " n"]
    answer: Int[Tensor, " n"]
    answered: Bool[Tensor, " n"]
    trusted: Bool[Tensor, " n"]
    predictions: Float[Tensor, "n s 2"]
    inflation: Float[Tensor, " n"]
    weights: Float[Tensor, " n"]

    @property
    def scored(self) -> Bool[Tensor, " n"]:
        """Whether the row has a reward."""
        return ~self.rewards.isnan()

    @property
    def standardised(self) -> Float[Tensor, " n"]:
        """The rewards standardised within their groups; 0 in groups of one or of equal rewards, and where unscored."""
        return group_advantages(self.rewards, self.group)

    @property
    def fitted_on(self) -> Bool[Tensor, "n 2"]:
        """[N, 2] the rows that states are fitted to and tested on: all of unequal groups, or those between extremes.

        Rewards that are wrong by far stand at the extremes of their groups, where right ones are rare: between them
        the rewards may agree with the states where over all rows they do not. Binary rewards have none between.
        Trusted rows have a fit of their own; the same ones may come with every batch.
        """
        unequal = (self.standardised != 0) & ~self.trusted
        return torch.stack([unequal, unequal & _between(self.rewards, self.group)], dim=1)


@dataclass(frozen=True, eq=False)
class Belief:
    """What is believed of N rows.

    Attributes:
        log_odds: [N] that the reward is wrong; -inf where that is excluded.
        expected: [N] expected true reward, in the units of the rewards; NaN where unscored.
        variance: [N] variance of the true reward around it.
        prior: [N] expected true reward before the row's own was looked at.
        scale: [N] what a difference of rewards is measured in: the deviation of the row's group, or, of binary rewards,
            the difference of the two. 0 where the rewards of a group are equal.
        bounds: the two binary rewards, between which the true one lies; None for continuous ones.
        metrics: the noise model's figures.
    """

    log_odds: Float[Tensor, " n"]
    expected: Float[Tensor, " n"]
    variance: Float[Tensor, " n"]
    prior: Float[Tensor, " n"]
    scale: Float[Tensor, " n"]
    bounds: tuple[float, float] | None
    metrics: dict[str, float]

    @property
    def wrong(self) -> Float[Tensor, " n"]:
        """[N] probability that the reward is wrong."""
        return self.log_odds.sigmoid()

    def __getitem__(self, rows: slice) -> Belief:
        by_row = ("log_odds", "expected", "variance", "prior", "scale")
        return replace(self, **{name: getattr(self, name)[rows] for name in by_row})

    def surprise(self, rewards: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """[N] rewards minus what was expected of them, in units of `scale`; 0 where that is 0."""
        return ((rewards - self.prior) / self.scale).masked_fill(self.scale == 0, 0.0)

    def corrected(self, correction: Float[Tensor, " n"], rows: NoisyRows) -> Belief:
        """The belief with a correction, in units of `scale`, added to the expected rewards that are not known.

        Binary rewards are then as likely wrong as they are far from the expected one. Of continuous ones the
        probability is that of a single wrong reward, and stays.
        """
        open_rows = rows.scored & ~rows.trusted & (self.scale > 0)
        expected = torch.where(open_rows, self.expected + self.scale * correction, self.expected)
        if self.bounds is None:
            return replace(self, expected=expected)
        low, high = self.bounds
        expected = expected.clamp(low, high)
        wrong = (rows.rewards - expected).abs() / (high - low)
        log_odds = torch.logit(wrong, eps=1e-13).clamp(-_LIMIT, _LIMIT)
        return replace(
            self,
            expected=expected,
            variance=torch.where(open_rows, (expected - low) * (high - expected), self.variance),
            log_odds=torch.where(open_rows, log_odds, self.log_odds),
        )

    def advantages(self, group: Int[Tensor, " n"], *, eps: float = 1e-6) -> Float[Tensor, " n"]:
        """A = (m - mean(m)) / (sqrt(E[s^2]) + eps), m the expected rewards, s^2 the variance of the true ones.

        E[s^2] = (sum (m - mean)^2 + sum v (1 - 1/n)) / (n - 1), v the variances. Dividing by the deviation of m itself
        would blow up a group whose expected rewards hardly differ: one of which nothing is known.
        """
        known = ~self.expected.isnan()
        centred = group_advantages(self.expected, group, scale="none")
        size = int(group.max()) + 1
        count = torch.bincount(group[known], minlength=size).double()
        inner = self.variance.masked_fill(~known, 0) * (1 - 1 / count.clamp(min=1))[group]
        total = torch.zeros(size, dtype=torch.float64).index_add_(0, group, centred.square() + inner)
        return centred / ((total / (count - 1).clamp(min=1)).sqrt() + eps)[group]


def noisy_rows(rollouts: Rollouts, order: GroupedRows, *, answers: bool, trusted_weight: float = 1.0) -> NoisyRows:
    """The batch in sorted order, without predictions; rows without `response_keys` are responses of their own."""
    permutation, group = order.order.cpu(), order.group.cpu()
    rows = permutation.tolist()
    keys = rows if rollouts.response_keys is None else rollouts.response_keys.cpu()[permutation].tolist()
    given = [None] * len(rows) if rollouts.answers is None or not answers else [rollouts.answers[row] for row in rows]
    groups = group.tolist()
    response = _dense(list(zip(groups, keys, strict=True)))
    labels = [
        (index, "response", key) if answer is None else (index, "answer", answer)
        for index, key, answer in zip(groups, keys, given, strict=True)
    ]
    rewards = rollouts.rewards.cpu().double()[permutation]
    trusted = torch.zeros(len(rows), dtype=torch.bool)
    if rollouts.trusted is not None:
        trusted = rollouts.trusted.cpu()[permutation] & ~rewards.isnan()
    return NoisyRows(
        rewards=rewards,
        group=group,
        response=response,
        answer=_dense(labels),
        answered=torch.tensor([answer is not None for answer in given]),
        trusted=trusted,
        predictions=rewards.new_zeros(len(rows), 0, 2),
        inflation=torch.ones_like(rewards),
        weights=torch.where(trusted, trusted_weight, 1.0).double(),
    )


def joined(batches: Sequence[NoisyRows], decay: float) -> NoisyRows:
    """Several batches as one, the last one last, with weights decay^age; groups and labels stay apart."""
    parts: dict[str, list[Tensor]] = {item.name: [] for item in fields(NoisyRows)}
    first = {"group": 0, "response": 0, "answer": 0}
    for age, batch in zip(range(len(batches) - 1, -1, -1), batches, strict=True):
        for name, values in parts.items():
            value = getattr(batch, name)
            if name in first:
                values.append(value + first[name])
                first[name] += int(value.max()) + 1
            else:
                values.append(value * decay**age if name == "weights" else value)
    return NoisyRows(**{name: torch.cat(values) for name, values in parts.items()})


def combined_prediction(rows: NoisyRows, level: float) -> tuple[Float[Tensor, " n"] | None, dict[str, float]]:
    """The predictions of all states as one, of mean square 1; None where they say nothing.

    A state takes part where the interval of its correlation with the rewards lies above 0; those that do are weighted
    by least squares on the rewards, so that one without a signal of its own adds nothing. Of fits on all rows and on
    rows between the extremes, each tested on its own kind, the one with the higher lower bound is taken; `level` is
    that of both tests together.
    """
    y, kinds = rows.standardised, rows.fitted_on
    views = [_view(rows, y, rows.weights * kinds[:, kind], kind, (1 + level) / 2) for kind in range(2)]
    z, whole, used = max(views, key=lambda view: -torch.inf if math.isnan(view[1].low) else view[1].low)
    metrics = {"states_used": float(used), "fitted_between": float(views[1][1] is whole)}
    return z, {
        **metrics,
        "correlation": whole.estimate,
        "correlation_low": whole.low,
        "correlation_high": whole.high,
    }


def _view(
    rows: NoisyRows, y: Tensor, weights: Tensor, kind: int, level: float
) -> tuple[Float[Tensor, " n"] | None, Interval, int]:
    """The combined prediction by fits on one kind of rows, its correlation with the rewards, and the states in it."""

    def test(z: Tensor) -> Interval:
        return grouped_correlation(z, y, rows.group, weights, inflation=rows.inflation, level=level)

    predictions = rows.predictions[:, :, kind]
    tests = [test(z) for z in predictions.unbind(1)]
    used = [index for index, each in enumerate(tests) if each.low > 0]
    if not used:
        return None, max(tests, key=lambda each: each.low, default=Interval(*[float("nan")] * 3)), 0
    z = predictions[:, used]
    gram = z.T @ (z * weights[:, None])
    gram.diagonal().add_(1e-6 * float(gram.diagonal().mean()))
    z = z @ torch.linalg.solve(gram, z.T @ (weights * y)).clamp(min=0)
    return z / ((weights @ z.square()) / weights.sum()).sqrt(), test(z), len(used)


def is_binary(rows: NoisyRows) -> bool:
    """Whether the rewards have at most two values."""
    return len(rows.rewards[rows.scored].unique()) <= 2


def believe_verdicts(
    rows: NoisyRows,
    z: Float[Tensor, " n"] | None,
    *,
    answers: bool,
    cluster_prior: float | None,
) -> Belief:
    """The belief about binary rewards; those of groups of one, or that are all equal, are right."""
    scored = rows.scored & _accompanied(rows)
    values = rows.rewards[scored].unique()
    exclusive = answers and bool(rows.answered.any())
    if len(values) < 2 or (z is None and not exclusive and not _contradictory(rows)):
        return certain(rows)
    low, high = float(values[0]), float(values[1])
    right = rows.rewards == high
    clusters = _clusters(rows, z, right, exclusive=exclusive)
    prior = torch.tensor(_EXCLUSIVE_PRIOR if exclusive else _INDEPENDENT_PRIOR, dtype=torch.float64)
    free = torch.tensor([True, exclusive and cluster_prior is None, z is not None, True])
    if exclusive and cluster_prior is not None:
        prior[1] = cluster_prior
    counts = _EXCLUSIVE_COUNTS if exclusive else _INDEPENDENT_COUNTS
    start = VerdictModel(0.8, 0.2, prior.clone(), prior, free, counts)
    model = fit_verdicts(clusters, right, scored, rows.trusted, start)
    truth = row_probabilities(clusters, right, scored, rows.trusted, model)
    unseen = cluster_probabilities(clusters, model.theta)[clusters.member]
    odds = torch.logit(truth, eps=1e-13)
    span, known = high - low, certain(rows)
    wrong = torch.where(right, 1 - truth, truth)

    def share_without(left_out: Bool[Tensor, " n"]) -> float:
        kept = clusters.weights.index_put((clusters.member[left_out],), torch.zeros((), dtype=torch.float64))
        refit = fit_verdicts(replace(clusters, weights=kept), right, scored, rows.trusted, model, rounds=_REFIT_ROUNDS)
        likely = row_probabilities(clusters, right, scored, rows.trusted, refit)
        counted = scored & ~left_out
        return _mean(torch.where(right, 1 - likely, likely)[counted], rows.weights[counted])

    share = _jackknife(_mean(wrong[scored], rows.weights[scored]), rows.group, share_without)
    return Belief(
        log_odds=torch.where(scored, torch.where(right, -odds, odds).clamp(-_LIMIT, _LIMIT), known.log_odds),
        expected=torch.where(scored, low + span * truth, rows.rewards),
        variance=torch.where(scored, span**2 * truth * (1 - truth), known.variance),
        prior=torch.where(scored, low + span * unseen, rows.rewards),
        scale=torch.full_like(rows.rewards, span),
        bounds=(low, high),
        metrics={
            "true_positive_rate": model.true_positive,
            "false_positive_rate": model.false_positive,
            "informedness": model.informedness,
            **_shares(share.estimate, share.low, share.high),
            "cluster_prior": float(model.theta[1]) if exclusive else torch.nan,
            "prediction_weight": float(model.theta[2]),
        },
    )


def believe_replacement(rows: NoisyRows, z: Float[Tensor, " n"] | None) -> Belief:
    """The belief about continuous rewards.

    Without predictions only responses that were given different rewards are judged. Groups of equal rewards stay.
    """
    y, belief = rows.standardised, certain(rows)
    judged = rows.scored & (y != 0) if z is not None else _contradictory_rows(rows, rows.response) & (y != 0)
    if not bool(judged.any()):
        return belief
    response = rows.response[judged].unique(return_inverse=True)[1]
    claim = _claims(y[judged], response)
    about = torch.zeros(int(claim.max()) + 1, dtype=torch.long)
    about[claim] = response
    claims = Claims(
        rewards=y[judged],
        predictions=torch.zeros_like(y)[judged] if z is None else z[judged],
        claim=claim,
        response=about,
        weights=rows.weights[judged],
        trusted=rows.trusted[judged],
    )
    model = fit_replacement(claims, initial_model(claims))
    replaced = replaced_rewards(claims, model)
    mean, scale = belief.prior, belief.scale

    def judge(known: Tensor, values: Tensor) -> Tensor:
        return known.masked_scatter(judged, values)

    log_odds = torch.logit(replaced.probability, eps=1e-13).clamp(-_LIMIT, _LIMIT)
    probable = float(claims.weights @ replaced.probability / rows.weights[rows.scored].sum())
    group = rows.group[judged]
    # Of the judged rows; the others are right.
    part = float(claims.weights.sum() / rows.weights[rows.scored].sum())

    def refit(left_out: Bool[Tensor, " n"]) -> ReplacementModel:
        kept = claims.weights.masked_fill(left_out, 0.0)
        return fit_replacement(replace(claims, weights=kept), model, rounds=_REFIT_ROUNDS)

    least = _jackknife(part * model.least_share, group, lambda left_out: part * refit(left_out).least_share)
    metrics = {**_shares(least.estimate, least.low, max(probable, least.high)), "prediction_weight": model.slope}
    return replace(
        belief,
        log_odds=judge(belief.log_odds, log_odds),
        expected=judge(belief.expected, mean[judged] + scale[judged] * replaced.expected),
        variance=judge(belief.variance, scale[judged].square() * replaced.variance),
        prior=judge(belief.prior, mean[judged] + scale[judged] * replaced.predicted),
        metrics=metrics,
    )


def certain(rows: NoisyRows) -> Belief:
    """The belief that every reward is right; before it was seen, the mean of its group was expected."""
    mean, scale = _units(rows)
    values = rows.rewards[rows.scored].unique()
    return Belief(
        log_odds=torch.full_like(rows.rewards, -_LIMIT),
        expected=rows.rewards,
        variance=torch.zeros_like(rows.rewards),
        prior=mean,
        scale=scale,
        bounds=(float(values[0]), float(values[1])) if len(values) == 2 else None,
        metrics={**_shares(0.0, 0.0, 1.0), "prediction_weight": 0.0},
    )


def _shares(estimate: float, low: float, high: float) -> dict[str, float]:
    return {
        "wrong_share": estimate,
        "wrong_share_low": min(max(low, 0.0), estimate),
        "wrong_share_high": max(min(high, 1.0), estimate),
    }


def _jackknife(estimate: float, group: Int[Tensor, " n"], without: Callable[[Bool[Tensor, " n"]], float]) -> Interval:
    """The estimate with its interval by leaving out one block of groups after another; NaN bounds with one group."""
    block = group.unique(return_inverse=True)[1] % _BLOCKS
    blocks = range(int(block.max()) + 1)
    if len(blocks) < 2:
        return Interval(estimate, float("nan"), float("nan"))
    return jackknife(estimate, [without(block == index) for index in blocks])


def shuffled_within(group: Int[Tensor, " n"], generator: torch.Generator | None) -> Int[Tensor, " n"]:
    """A permutation of sorted rows that leaves every row in its group."""
    return torch.rand(len(group), generator=generator, dtype=torch.float64).add(group).argsort()


def _clusters(
    rows: NoisyRows, z: Float[Tensor, " n"] | None, right: Bool[Tensor, " n"], *, exclusive: bool
) -> Clusters:
    member = rows.answer if exclusive else rows.response
    count = int(member.max()) + 1
    size = torch.bincount(member, minlength=count).double()
    group = torch.zeros(count, dtype=torch.long)
    group[member] = rows.group
    in_group = torch.bincount(rows.group).double()

    def total(values: Tensor) -> Tensor:
        return torch.zeros(count, dtype=torch.float64).index_add_(0, member, values.double())

    if exclusive:
        last = (total(~rows.answered) > 0).double()
    else:
        scored = total(rows.scored)
        yes, all_scored = total(right), torch.zeros_like(in_group).index_add_(0, rows.group, rows.scored.double())
        all_yes = torch.zeros_like(in_group).index_add_(0, rows.group, right.double())
        last = torch.log((all_yes[group] - yes + 0.5) / (all_scored[group] - scored - (all_yes[group] - yes) + 0.5))
    share = (size / in_group[group]).log()
    mean = torch.zeros_like(size) if z is None else total(z) / size
    features = torch.stack([torch.ones_like(size), share, mean, last], dim=1)
    weights = total(rows.weights) / size
    return Clusters(member, group if exclusive else torch.arange(count), features, weights)


def _contradictory(rows: NoisyRows) -> bool:
    return bool(_contradictory_rows(rows, rows.response).any())


def _contradictory_rows(rows: NoisyRows, label: Int[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """Scored rows whose response was also given another reward."""
    scored, y = rows.scored, rows.standardised
    low, high = _extremes(y.masked_fill(~scored, torch.nan), label)
    return scored & (high - low > _ROUNDING)[label]


def _accompanied(rows: NoisyRows) -> Bool[Tensor, " n"]:
    """Rows of groups with two rewards at least."""
    return (torch.bincount(rows.group, weights=rows.scored.double()) >= 2)[rows.group]


def _extremes(values: Float[Tensor, " n"], label: Int[Tensor, " n"]) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
    """The least and the greatest value of each label, NaN left out; inf and -inf where there is none."""
    known = ~values.isnan()
    empty = values.new_full((int(label.max()) + 1,), torch.inf)
    low = empty.scatter_reduce(0, label[known], values[known], "amin")
    return low, (-empty).scatter_reduce(0, label[known], values[known], "amax")


def _claims(y: Float[Tensor, " n"], response: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """Rows of one response whose rewards are equal, up to what padding makes of a reward model's, share a number."""
    order = y.argsort(stable=True)
    order = order[response[order].argsort(stable=True)]
    new = (response[order].diff() != 0) | (y[order].diff() > _ROUNDING)
    claim = torch.empty_like(response)
    claim[order] = torch.cat([new.new_zeros(1), new]).cumsum(0)
    return claim


def _units(rows: NoisyRows) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """[N] mean and deviation of each row's group: rewards = mean + deviation * standardised."""
    y = rows.standardised
    centred = group_advantages(rows.rewards, rows.group, scale="none")
    total = torch.zeros(int(rows.group.max()) + 1, 2, dtype=torch.float64)
    total = total.index_add_(0, rows.group, torch.stack([centred.abs(), y.abs()], dim=1))
    scale = (total[:, 0] / total[:, 1].clamp(min=1e-30))[rows.group]
    return rows.rewards - centred, scale


def _between(rewards: Float[Tensor, " n"], group: Int[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """Rows whose reward lies strictly between the least and the greatest of their group."""
    low, high = _extremes(rewards, group)
    return (rewards > low[group]) & (rewards < high[group])


def _mean(values: Float[Tensor, " n"], weights: Float[Tensor, " n"]) -> float:
    return float(weights @ values / weights.sum().clamp(min=1e-30))


def _dense(labels: Sequence[object]) -> Int[Tensor, " n"]:
    """Equal labels get equal numbers, from 0 in order of appearance."""
    known: dict[object, int] = {}
    return torch.tensor([known.setdefault(label, len(known)) for label in labels], dtype=torch.long)
