"""A verifier's error rates from rows that were checked, drawn uniformly at random from the rows that it judged.

Both rates are a share of a class: of the wrong rows those that are accepted (false positives), of the right rows those
that are refused (false negatives). Let y_i = 1 for a row of the class, v_i = 1 for an accepted (refused) one, and f_i
the predicted probability of y_i. Prediction-powered inference (Angelopoulos et al., 2023) estimates the numerator and
the denominator of the rate:

    A = lambda mean(f v) + mean_checked((y - lambda f) v),      B = lambda mean(f) + mean_checked(y - lambda f),

where the first means are over all N rows. Both are without bias whatever f is: a poor prediction makes the interval
wide and never wrong. The interval is all rates theta with

    |A - theta B| <= t_{n-1} sqrt(V(theta) + 1.5 ((1 - theta)^2 + theta^2) / n^2),

V(theta) = (1 - n/N) var((y - lambda f)(v - theta)) / n. The second term counts one and a half errors that were not
seen: without it an interval of few checks and a rare error is far too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from geoalign.checks.prediction import cross_predictions
from geoalign.intervals import t_quantile

Method = Literal["prediction-powered", "wilson", "anytime", "all rows"]

# Where fewer rows of the class are to be expected among the checked ones, or were found, Wilson's interval stands: the
# other one would be wider. What is to be expected is a guess, and may be far too much.
LEAST_OF_CLASS = 30
# And where the prediction explains less of the variance than this.
LEAST_EXPLAINED = 0.1
_PSEUDO_ERRORS = 1.5


@dataclass(frozen=True)
class CheckedRate:
    """A rate with its 95% interval.

    Attributes:
        estimate: the rate; NaN where no row of the class was checked.
        low, high: the interval; 0 and 1 where the checks say nothing.
        method: how it was computed.
        checked: the checked rows of the class, of which the rate is a share.
        errors: how many of these the verifier judged wrongly.
    """

    estimate: float
    low: float
    high: float
    method: Method
    checked: int
    errors: int


@dataclass(frozen=True)
class CheckedRates:
    """Both error rates of one verifier."""

    false_positive_rate: CheckedRate
    false_negative_rate: CheckedRate


def checked_rates(
    accepted: Bool[np.ndarray, " n"],
    checked: Int[np.ndarray, " c"],
    right: Bool[np.ndarray, " c"],
    features: Float[np.ndarray, "n k"],
    *,
    right_shares: Sequence[float] = (),
    level: float = 0.95,
    seed: int = 0,
) -> CheckedRates:
    """Both error rates among N rows that a verifier judged, of which C were drawn uniformly and checked.

    Args:
        accepted: [N] the verifier's verdicts.
        checked: [C] the rows that were checked, without repeats; drawn uniformly, never chosen.
        right: [C] what the checks say of them.
        features: [N, K] finite numbers that may tell right rows from wrong ones; the verdicts themselves are added.
        right_shares: guesses of the share of right rows that need no check, such as the share that another verifier
            accepts; the share that this one accepts is added. Wilson's interval stands where they promise too few rows
            of a class among the checked ones.
        level: the share of intervals that hold.
        seed: of the folds of the prediction.

    Raises:
        InputError: a feature is not finite, or a row was checked twice.
    """
    chance_right = cross_predictions(
        np.column_stack([accepted.astype(float), features]), checked, right, generator=np.random.default_rng(seed)
    )
    return rates_from_prediction(accepted, checked, right, chance_right, right_shares=right_shares, level=level)


def rates_from_prediction(
    accepted: Bool[np.ndarray, " n"],
    checked: Int[np.ndarray, " c"],
    right: Bool[np.ndarray, " c"],
    chance_right: Float[np.ndarray, " n"],
    *,
    right_shares: Sequence[float] = (),
    level: float = 0.95,
) -> CheckedRates:
    """Both error rates with a prediction of one's own; the other arguments are those of `checked_rates`.

    Args:
        chance_right: [N] P(right) of every row. That of a checked row must not rest on its own label.
    """
    guesses = [float(accepted.mean()), *right_shares]
    return CheckedRates(
        false_positive_rate=_rate(
            ~right, accepted, 1 - chance_right, checked, class_share=1 - max(guesses), level=level
        ),
        false_negative_rate=_rate(right, ~accepted, chance_right, checked, class_share=min(guesses), level=level),
    )


def _rate(
    in_class: Bool[np.ndarray, " c"],
    verdict: Bool[np.ndarray, " n"],
    predicted: Float[np.ndarray, " n"],
    checked: Int[np.ndarray, " c"],
    *,
    class_share: float,
    level: float,
) -> CheckedRate:
    """The share of a class whose `verdict` is the error.

    How many of the checked rows are of the class says nothing of the rate itself, so that an interval which is chosen
    by this number holds as often.

    Args:
        in_class: [C] whether each checked row is in the class.
        verdict: [N] whether the verifier's verdict on a row is the error, if the row is in the class.
        predicted: [N] P(in the class).
        class_share: the least share of all rows that the class is guessed to have.
    """
    of_class = verdict[checked][in_class]
    errors = int(of_class.sum())
    found = len(of_class)
    if len(checked) == len(verdict):
        share = errors / found if found else math.nan
        return CheckedRate(share, share if found else 0.0, share if found else 1.0, "all rows", found, errors)
    if min(len(checked) * class_share, found) >= LEAST_OF_CLASS:
        weight, explained = prediction_weight(in_class, verdict[checked], predicted[checked])
        if explained >= LEAST_EXPLAINED:
            estimate, low, high = _prediction_powered(in_class, verdict, predicted, checked, weight=weight, level=level)
            return CheckedRate(estimate, low, high, "prediction-powered", found, errors)
    return rate_by_wilson(of_class, level=level)


def rate_by_wilson(is_error: Bool[np.ndarray, " k"], *, level: float = 0.95) -> CheckedRate:
    """The share of errors among the k checked rows of a class, with an interval that needs no prediction."""
    errors = int(is_error.sum())
    checked = len(is_error)
    estimate = errors / checked if checked else math.nan
    low, high = modified_wilson(errors, checked, level=level)
    return CheckedRate(estimate, low, high, method="wilson", checked=checked, errors=errors)


def _prediction_powered(
    in_class: Bool[np.ndarray, " c"],
    verdict: Bool[np.ndarray, " n"],
    predicted: Float[np.ndarray, " n"],
    checked: Int[np.ndarray, " c"],
    *,
    weight: float,
    level: float,
) -> tuple[float, float, float]:
    """Estimate and interval, by the equations at the head of this file; `weight` is lambda."""
    n = len(checked)
    sampled_fraction = n / len(verdict)
    y = in_class.astype(float)
    v = verdict.astype(float)
    f = predicted
    residual = y - weight * f[checked]
    numerator = weight * (f * v).mean() + (residual * v[checked]).mean()
    denominator = weight * f.mean() + residual.mean()

    # V(theta) = c0 - 2 c1 theta + c2 theta^2, the covariances of residual v and residual.
    covariance = np.cov(residual * v[checked], residual) * (1 - sampled_fraction) / n
    pseudo = _PSEUDO_ERRORS / n**2
    quantile_squared = t_quantile(level, n - 1) ** 2
    # The interval: (A - theta B)^2 <= t^2 (V(theta) + pseudo ((1 - theta)^2 + theta^2)), a quadratic in theta.
    quadratic = denominator**2 - quantile_squared * (covariance[1, 1] + 2 * pseudo)
    linear = -2 * numerator * denominator + 2 * quantile_squared * (covariance[0, 1] + pseudo)
    constant = numerator**2 - quantile_squared * (covariance[0, 0] + pseudo)
    low, high = _between_roots(quadratic, linear, constant)
    if denominator <= 0:
        return math.nan, low, high
    return min(max(numerator / denominator, low), high), low, high


def prediction_weight(
    in_class: Bool[np.ndarray, " c"], verdict: Bool[np.ndarray, " c"], predicted: Float[np.ndarray, " c"]
) -> tuple[float, float]:
    """lambda in [0, 1] for which the estimate varies least, and the share of the variance that the prediction explains.

    Both are reckoned at the rate that the labels alone give (PPI++). The arguments are those of the checked rows.
    """
    y = in_class.astype(float)
    v = verdict.astype(float)
    rate = (y * v).sum() / y.sum() if y.sum() else 0.5
    label_part = y * (v - rate)
    predicted_part = predicted * (v - rate)
    covariance = np.cov(label_part, predicted_part)
    if covariance[0, 0] == 0 or covariance[1, 1] == 0:
        return 0.0, 0.0
    weight = float(np.clip(covariance[0, 1] / covariance[1, 1], 0, 1))
    left = covariance[0, 0] - 2 * weight * covariance[0, 1] + weight**2 * covariance[1, 1]
    return weight, float(1 - left / covariance[0, 0])


def _between_roots(quadratic: float, linear: float, constant: float) -> tuple[float, float]:
    """The part of [0, 1] on which quadratic x^2 + linear x + constant <= 0, as an interval; all of it where that is
    no interval."""
    discriminant = linear**2 - 4 * quadratic * constant
    if quadratic <= 0 or discriminant < 0:
        return 0.0, 1.0
    root = math.sqrt(discriminant)
    low = (-linear - root) / (2 * quadratic)
    high = (-linear + root) / (2 * quadratic)
    return min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)


def modified_wilson(errors: int, trials: int, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share, as Brown, Cai and DasGupta (2001) modify it; 0 to 1 without a trial.

    Where there are one or two errors, of more than 50 trials up to three, the lower end is that of a Poisson count:
    Wilson's own is too high for rates near 0, and holds in 84% of the samples at worst. With as few successes the same
    is done at 1.
    """
    # Takes a third of a second to import, and an audit without checks needs none of it.
    from scipy import stats

    if trials == 0:
        return 0.0, 1.0
    interval = stats.binomtest(errors, trials).proportion_ci(level, method="wilson")
    few = 2 if trials <= 50 else 3
    low, high = float(interval.low), float(interval.high)
    if 1 <= errors <= few:
        low = float(stats.chi2.ppf(1 - level, 2 * errors)) / 2 / trials
    successes = trials - errors
    if 1 <= successes <= few:
        high = 1 - float(stats.chi2.ppf(1 - level, 2 * successes)) / 2 / trials
    return low, high
