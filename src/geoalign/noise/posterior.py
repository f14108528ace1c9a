"""The true reward t behind a noisy one y: a prior by what speaks for a row, and a noise channel from t to y.

Rewards with two values are verdicts: `geoalign.noise.units` says what is believed of them. Of other rewards
`geoalign.noise.values` does. EM on the recent batches fits both. Rows of one unit (the same answer or response to a
prompt) share t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.method.advantages import group_advantages
from geoalign.method.ties import power_of_two
from geoalign.noise.channel import SMALLEST, NoiseFit
from geoalign.noise.rows import NoisyRows, sum_by_label, two_values
from geoalign.noise.units import Units, got_both_verdicts, verdict_units
from geoalign.noise.values import value_beliefs

_RATES = ("true_positive_rate", "false_positive_rate", "informedness")


@dataclass(frozen=True, eq=False)
class Posterior:
    """The true rewards of rows, as the noise model believes them to be.

    A reward is offset + scale * observation, and everything from `prior` to `wrong` is on the scale of `observation`.

    Attributes:
        group: [N] the group of each row.
        observed: [N] the rewards.
        observation: [N] the verdict, 0 or 1, or the reward standardised within its group.
        offset: [N] the lower verdict and what is added to it, or the group's mean; NaN where unscored.
        scale: [N] the gap between verdicts, or the group's deviation; where that is 0 the other groups'.
        verdicts: whether the rewards were judged as verdicts.
        prior: [N] m, the expected true reward before y is seen.
        mean: [N] p = E[t | y].
        estimate: [N] what the row is given: p, matched in slope.
        variance: [N] v, of t given y.
        group_variance: [N] of the sum of t over the row's group, given y.
        wrong: [N] probability that the reward is wrong.
        metrics: what is to be logged.
        fit: the fields of `NoiseFit`; {} where nothing was judged.
        units: of verdicts what the fit is made of.
        rests_on_rates: whether `estimate` rests on the model's rates. Where they are not identified, it is the
            observations as far as these can be put right without a rate.
    """

    group: Int[Tensor, " n"]
    observed: Float[Tensor, " n"]
    observation: Float[Tensor, " n"]
    offset: Float[Tensor, " n"]
    scale: Float[Tensor, " n"]
    verdicts: bool
    prior: Float[Tensor, " n"]
    mean: Float[Tensor, " n"]
    estimate: Float[Tensor, " n"]
    variance: Float[Tensor, " n"]
    group_variance: Float[Tensor, " n"]
    wrong: Float[Tensor, " n"]
    metrics: dict[str, float]
    fit: dict[str, Tensor]
    units: Units | None = None
    rests_on_rates: bool = True

    def __getitem__(self, rows: slice) -> Posterior:
        """The same posterior of some of its rows; what is not by row stays."""
        of_rows: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                of_rows[name] = value[rows]
        return replace(self, **of_rows)

    @property
    def rewards(self) -> Float[Tensor, " n"]:
        """[N] the denoised rewards; bit for bit the observed ones where nothing is changed."""
        unchanged = self.estimate == self.observation
        return torch.where(unchanged, self.observed, self.offset + self.scale * self.estimate)

    def corrected(self, correction: Float[Tensor, " n"]) -> Posterior:
        """With a correction added to the expected rewards; 0 leaves a row as it is.

        A verdict's probability of being wrong becomes its distance from the corrected mean; of other rewards it stays.
        """
        mean = self.mean + correction
        wrong = self.wrong
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
        group = self.group
        scored = ~self.offset.isnan()
        count = sum_by_label(scored, group).clamp(min=1)
        # p - mean p, and each row's share of sum v - var(sum t) / n, on the scale of the rewards.
        expected = group_advantages(self.offset + self.scale * self.mean, group, scale="none")
        variance = self.variance - self.group_variance / count[group].square()
        # t' - mean t'.
        centred = group_advantages(self.rewards, group, scale="none")
        # In units in which no square leaves the range of numbers; powers of two round nothing.
        unit = _unit_of_group(torch.stack([expected, self.scale, centred]), group)
        expected = expected / unit[group]
        scale = self.scale / unit[group]
        centred = centred / unit[group]
        variance = (scale.square() * variance).masked_fill(~scored, 0)
        spread_of_truth = sum_by_label(expected.square() + variance, group)
        spread_of_given = sum_by_label(centred.square(), group)
        spread = torch.maximum(spread_of_truth, spread_of_given)
        deviation = (spread / (count - 1).clamp(min=1)).sqrt() + 1e-6 / unit
        return centred / deviation[group]


@dataclass(frozen=True, eq=False)
class _Observations:
    """The rewards as the model sees them: a reward is offset + scale * value; `judged` are the rows it speaks of."""

    value: Float[Tensor, " n"]
    offset: Float[Tensor, " n"]
    scale: Float[Tensor, " n"]
    judged: Bool[Tensor, " n"]


@dataclass(frozen=True, eq=False)
class _Beliefs:
    """What is believed of the true values of the rows, on the scale of `_Observations.value`.

    Attributes:
        prior, mean, variance, wrong: [N] as in `Posterior`.
        compared: [N] the rows that tell the slope of the posterior mean on the truth.
        same_truth: [N] rows of one label share their true value.
        exclusive_set: [N] the number of a set of true values of which at most one is 1.
        fit, units, metrics: as in `Posterior`.
    """

    prior: Float[Tensor, " n"]
    mean: Float[Tensor, " n"]
    variance: Float[Tensor, " n"]
    wrong: Float[Tensor, " n"]
    compared: Bool[Tensor, " n"]
    same_truth: Int[Tensor, " n"]
    exclusive_set: Int[Tensor, " n"]
    fit: NoiseFit | None
    units: Units | None
    metrics: dict[str, float]


def infer(
    rows: NoisyRows,
    prediction: Float[Tensor, " n"] | None,
    *,
    least_slope: float,
    exclusive: bool = True,
    earlier: dict[str, Tensor] | None = None,
) -> Posterior:
    """The posterior of the rows' true rewards; a row of which nothing but its reward is known keeps that.

    Args:
        prediction: [N] z, of mean square 1; None without a prediction.
        least_slope: lower bound of the slope in which estimates are matched (`_matched_in_slope`).
        exclusive: at most one of a group's answers is right, unless the rows say otherwise of their group; False:
            several may be.
        earlier: the fields of the fit of the window before, where EM starts.
    """
    verdict_values = two_values(rows.rewards[rows.accompanied])
    if verdict_values is None:
        observations = _as_values(rows, predicted=prediction is not None)
    else:
        observations = _as_verdicts(rows, *verdict_values, predicted=prediction is not None)
    judged = observations.judged
    open_rows = judged & ~rows.trusted
    any_judged = bool(judged.any())
    z = torch.zeros_like(rows.rewards) if prediction is None else prediction
    if not any_judged:
        beliefs = _no_beliefs(rows, observations)
    elif verdict_values is not None:
        beliefs = _verdict_beliefs(rows, observations, z, exclusive=exclusive, earlier=earlier or {})
    else:
        beliefs = _value_beliefs(rows, observations, z, earlier=earlier or {})

    group_mean = _group_mean(observations.value, rows)
    prior = torch.where(judged, beliefs.prior, group_mean)
    mean = torch.where(open_rows, beliefs.mean, observations.value)
    variance = beliefs.variance.clamp(min=0) * open_rows
    wrong = beliefs.wrong * open_rows
    estimate, slope = _matched_in_slope(rows, prior, mean, variance, beliefs.compared, least_slope=least_slope)

    counted = rows.weights * open_rows
    # NaN where no reward is judged.
    wrong_share = float(counted @ wrong / counted.sum())
    any_compared = bool((beliefs.compared & (rows.weights > 0)).any())
    return Posterior(
        group=rows.group,
        observed=rows.rewards,
        observation=observations.value,
        offset=observations.offset,
        scale=observations.scale,
        verdicts=any_judged and verdict_values is not None,
        prior=prior,
        mean=mean,
        estimate=estimate,
        variance=variance,
        group_variance=_group_variance(rows, mean, variance, beliefs, open_rows),
        wrong=wrong,
        metrics={"wrong_share": wrong_share, "recovered": slope if any_compared else math.nan, **beliefs.metrics},
        fit={} if beliefs.fit is None else beliefs.fit._asdict(),
        units=beliefs.units,
    )


def _as_verdicts(rows: NoisyRows, low: float, high: float, *, predicted: bool) -> _Observations:
    """Rewards near `low` are 0 and those near `high` 1; what lies between a reward and its verdict is offset.

    A row is judged by what is known of it: a prediction, its answer, or a response that got both verdicts.
    """
    scored = rows.accompanied
    value = (rows.rewards > (low + high) / 2).double()
    scale = torch.full_like(rows.rewards, high - low)
    contradicted = got_both_verdicts(rows.answer, value, scored)
    return _Observations(
        value=value,
        offset=rows.rewards - scale * value,
        scale=scale,
        judged=scored & (predicted | rows.answered | rows.lacking | contradicted),
    )


def _as_values(rows: NoisyRows, *, predicted: bool) -> _Observations:
    """Rewards standardised within their groups; without a prediction nothing speaks of them."""
    group = rows.group
    centred = group_advantages(rows.rewards, group, scale="none")
    degrees = (sum_by_label(rows.scored, group) - 1).clamp(min=1)
    # One unit for all groups, in which no square leaves the range of numbers; a power of two rounds nothing.
    unit = power_of_two(centred.abs().max())
    deviation = (sum_by_label((centred / unit).square(), group) / degrees).sqrt() * unit
    usual = (deviation[deviation > 0] / unit).square().mean().sqrt().nan_to_num() * unit
    scale = torch.where(deviation > 0, deviation, usual)[group]
    return _Observations(
        value=rows.standardised,
        offset=rows.rewards - centred,
        scale=scale,
        judged=rows.accompanied & (scale > 0) & predicted,
    )


def _no_beliefs(rows: NoisyRows, observations: _Observations) -> _Beliefs:
    """Of nothing but rewards: they are as they are."""
    zero = torch.zeros_like(rows.rewards)
    return _Beliefs(
        prior=zero,
        mean=observations.value,
        variance=zero,
        wrong=zero,
        compared=torch.zeros_like(observations.judged),
        same_truth=rows.response,
        exclusive_set=rows.response,
        fit=None,
        units=None,
        metrics={},
    )


def _verdict_beliefs(
    rows: NoisyRows,
    observations: _Observations,
    prediction: Float[Tensor, " n"],
    *,
    exclusive: bool,
    earlier: dict[str, Tensor],
) -> _Beliefs:
    """By the units of the rows: the true value of a row is 1 with the probability that its unit is right."""
    units = verdict_units(rows, prediction, observations.value, observations.judged, exclusive)
    fit = units.fit(earlier)
    prior_of_unit, right_of_unit = units.probabilities(fit)
    right = right_of_unit[units.of_row]
    rates = _fitted_rates(fit) if units.were_judged else dict.fromkeys(_RATES, math.nan)
    # What trusted rows tell is no expectation, of which a part would be missing.
    truth_is_known = (units.known_log_odds != 0)[units.of_row]
    return _Beliefs(
        prior=prior_of_unit[units.of_row],
        mean=right,
        variance=right * (1 - right),
        wrong=(observations.value - right).abs(),
        compared=observations.judged & ~rows.trusted & ~truth_is_known,
        same_truth=units.of_row,
        exclusive_set=units.exclusive_set[units.of_row],
        fit=fit,
        units=units,
        metrics=rates,
    )


def _fitted_rates(fit: NoiseFit) -> dict[str, float]:
    """The verifier's rates, as they are logged."""
    missed, false_positive = fit.error_rates.tolist()
    return dict(zip(_RATES, (1 - missed, false_positive, 1 - missed - false_positive), strict=True))


def _value_beliefs(
    rows: NoisyRows, observations: _Observations, prediction: Float[Tensor, " n"], *, earlier: dict[str, Tensor]
) -> _Beliefs:
    """By the model of values: rows of one response share their true reward."""
    judged = observations.judged
    found = value_beliefs(rows, prediction, judged, earlier)
    # A response has one true reward: of several observed ones at most one is right, for which m has no term.
    single = (sum_by_label(judged, rows.response) == 1)[rows.response]
    return _Beliefs(
        prior=found.prior,
        mean=found.mean,
        variance=found.variance,
        wrong=found.wrong,
        fit=found.fit,
        compared=judged & ~rows.trusted & (observations.value != 0) & single,
        same_truth=rows.response,
        exclusive_set=rows.response,
        units=None,
        metrics={},
    )


def _unit_of_group(values: Float[Tensor, "k n"], group: Int[Tensor, " n"]) -> Float[Tensor, " g"]:
    """[G] the `power_of_two` of the largest of the values of each group's rows."""
    largest = values.abs().amax(dim=0)
    of_group = largest.new_zeros(int(group.max()) + 1)
    return power_of_two(of_group.scatter_reduce(0, group, largest, "amax"))


def _group_mean(values: Float[Tensor, " n"], rows: NoisyRows) -> Float[Tensor, " n"]:
    """[N] the mean of the scored values of the row's group."""
    scored = values.masked_fill(~rows.scored, torch.nan)
    return values - group_advantages(scored, rows.group, scale="none")


def _matched_in_slope(
    rows: NoisyRows,
    prior: Float[Tensor, " n"],
    mean: Float[Tensor, " n"],
    variance: Float[Tensor, " n"],
    compared: Bool[Tensor, " n"],
    *,
    least_slope: float,
) -> tuple[Float[Tensor, " n"], float]:
    """[N] estimates t' = m + (p - m) / r, and r.

    r = sum w (p - m)^2 / sum w ((p - m)^2 + v) is the slope of p - m on t - m: an expected reward is shrunk by it. It
    is at least `least_slope`; where a group's own is higher, as where the model is sure, the group has that.
    """
    weights = rows.weights * compared
    # (p - m)^2, and (p - m)^2 + v.
    gained = (mean - prior).square()
    whole = gained + variance
    slope = float(weights @ gained / (weights @ whole).clamp(min=SMALLEST))
    slope = max(slope, least_slope)
    whole_of_group = sum_by_label(weights * whole, rows.group).clamp(min=SMALLEST)
    slope_of_group = sum_by_label(weights * gained, rows.group) / whole_of_group
    lift = 1 / slope_of_group.clamp(min=slope) - 1
    lifted = mean + (mean - prior) * lift[rows.group]
    return torch.where(weights > 0, lifted, mean), slope


def _group_variance(
    rows: NoisyRows,
    mean: Float[Tensor, " n"],
    variance: Float[Tensor, " n"],
    beliefs: _Beliefs,
    open_rows: Bool[Tensor, " n"],
) -> Float[Tensor, " n"]:
    """[N] the variance of the sum of the true values over the row's group.

    Rows of one unit are right together, and of an exclusive set at most one unit is. So a row adds
    n_u E[t^2] - E[t] sum E[t'], n_u the open rows of its unit and t' those of its exclusive set.
    """
    expected = mean * open_rows
    expected_square = variance + expected.square()
    rows_of_unit = sum_by_label(open_rows, beliefs.same_truth)[beliefs.same_truth]
    expected_of_set = sum_by_label(expected, beliefs.exclusive_set)[beliefs.exclusive_set]
    added = rows_of_unit * expected_square - expected * expected_of_set
    return sum_by_label(added, rows.group)[rows.group]
