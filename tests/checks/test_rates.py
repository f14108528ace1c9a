"""Error rates from a few checked rows: by hand, against a naive computation, and how often they hold."""

import math

import numpy as np
import pytest
from scipy import stats

from geoalign.checks.prediction import cross_predictions, ridge_logistic
from geoalign.checks.rates import checked_rates, modified_wilson
from geoalign.errors import InputError

ROWS = 1000


def world(seed=0, right_share=0.5, false_positives=0.2, false_negatives=0.1):
    """Truth, verdicts, and a feature that tells much of the truth."""
    rng = np.random.default_rng(seed)
    right = rng.random(ROWS) < right_share
    errs = rng.random(ROWS) < np.where(right, false_negatives, false_positives)
    feature = right + rng.normal(0, 0.3, ROWS)
    return right, right ^ errs, feature[:, None]


def drawn(seed, count):
    return np.random.default_rng([7, seed]).choice(ROWS, count, replace=False)


def test_all_rows_checked_give_the_rates_themselves():
    right = np.array([True, True, True, False, False])
    accepted = np.array([True, False, True, True, False])
    rates = checked_rates(accepted, np.arange(5), right, np.zeros((5, 1)))
    positive, negative = rates.false_positive_rate, rates.false_negative_rate
    assert (positive.estimate, positive.low, positive.high, positive.errors, positive.checked) == (0.5, 0.5, 0.5, 1, 2)
    assert negative.estimate == negative.low == negative.high == 1 / 3


def test_a_class_without_a_checked_row_is_not_known():
    right = np.ones(40, dtype=bool)
    accepted = np.ones(100, dtype=bool)
    rate = checked_rates(accepted, np.arange(40), right, np.zeros((100, 1))).false_positive_rate
    assert math.isnan(rate.estimate)
    assert (rate.low, rate.high, rate.method) == (0.0, 1.0, "wilson")


def naive_interval(in_class, verdict, predicted, checked, weight):
    """All rates on a grid that the inequality at the head of the module admits."""
    n, rows = len(checked), len(verdict)
    y, v, f = in_class.astype(float), verdict.astype(float), predicted
    quantile = stats.t.ppf(0.975, n - 1)
    admitted = []
    for theta in np.linspace(0, 1, 20001):
        residual = y - weight * f[checked]
        numerator = weight * (f * v).mean() + (residual * v[checked]).mean()
        denominator = weight * f.mean() + residual.mean()
        variance = (1 - n / rows) * np.var(residual * (v[checked] - theta), ddof=1) / n
        unseen = 1.5 * ((1 - theta) ** 2 + theta**2) / n**2
        if abs(numerator - theta * denominator) <= quantile * math.sqrt(variance + unseen):
            admitted.append(theta)
    return admitted[0], admitted[-1]


def test_the_interval_is_that_of_the_inequality():
    right, accepted, features = world()
    checked = drawn(0, 100)
    found = checked_rates(accepted, checked, right[checked], features, seed=3).false_positive_rate
    assert found.method == "prediction-powered"
    chance = cross_predictions(
        np.column_stack([accepted.astype(float), features]), checked, right[checked], generator=np.random.default_rng(3)
    )
    # The weight of least variance is whatever gives the shortest interval, near enough.
    wrong = ~right[checked]
    intervals = [naive_interval(wrong, accepted, 1 - chance, checked, weight) for weight in (0.8, 0.9, 1.0)]
    closest = min(intervals, key=lambda ends: abs(ends[0] - found.low) + abs(ends[1] - found.high))
    assert (found.low, found.high) == pytest.approx(closest, abs=0.01)


@pytest.mark.parametrize("kind", ["informative", "random", "inverted"])
@pytest.mark.parametrize("count", [50, 100])
def test_intervals_hold_whatever_the_features_say(kind, count):
    right, accepted, features = world()
    if kind == "random":
        features = np.random.default_rng(1).normal(size=features.shape)
    elif kind == "inverted":
        features = -features
    truth = (accepted[~right].mean(), (~accepted)[right].mean())
    held = np.zeros(2)
    for draw in range(200):
        checked = drawn(draw, count)
        rates = checked_rates(accepted, checked, right[checked], features, seed=draw)
        for side, rate in enumerate((rates.false_positive_rate, rates.false_negative_rate)):
            held[side] += rate.low <= truth[side] <= rate.high
    # 95% of 200 draws, less four standard errors.
    assert (held / 200 > 0.89).all()


def test_features_that_tell_the_truth_make_the_interval_shorter():
    right, accepted, features = world()
    widths = {"told": [], "alone": []}
    for draw in range(20):
        checked = drawn(draw, 100)
        rate = checked_rates(accepted, checked, right[checked], features).false_positive_rate
        low, high = modified_wilson(rate.errors, rate.checked)
        widths["told"].append(rate.high - rate.low)
        widths["alone"].append(high - low)
    assert np.mean(widths["told"]) < 0.85 * np.mean(widths["alone"])


def test_a_rare_class_has_wilsons_interval_by_what_was_guessed_before():
    right, accepted, features = world(right_share=0.95, false_positives=0.5)
    checked = drawn(0, 100)
    given = checked_rates(accepted, checked, right[checked], features)
    assert given.false_positive_rate.method == "wilson"
    assert given.false_negative_rate.method == "prediction-powered"
    guessed = checked_rates(accepted, checked, right[checked], features, right_shares=[0.1])
    assert guessed.false_negative_rate.method == "wilson"


def test_a_class_that_is_rarer_than_was_guessed_has_wilsons_interval():
    """The verifier accepts half of the rows, and one in ten is right: 100 checks find some 10 right rows, not 50."""
    right, _, features = world(right_share=0.1)
    accepted = np.random.default_rng(2).random(ROWS) < 0.5
    checked = drawn(0, 100)
    assert checked_rates(accepted, checked, right[checked], features).false_negative_rate.method == "wilson"


def test_wilson_by_hand():
    # Wilson's interval of 2 in 10 at 95% is 0.0567 to 0.5098; the lower end for so few is that of a Poisson count,
    # chi2(0.05, 4) / 20 = 0.0355.
    assert modified_wilson(2, 10) == pytest.approx((0.0355, 0.5098), abs=1e-4)
    assert modified_wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    low, high = modified_wilson(8, 10)
    assert (1 - high, 1 - low) == pytest.approx(modified_wilson(2, 10))
    assert modified_wilson(0, 0) == (0.0, 1.0)


def test_a_feature_that_is_missing_is_refused():
    features = np.linspace(0, 1, ROWS)[:, None].copy()
    features[5] = math.nan
    accepted, checked = np.arange(ROWS) % 3 == 0, np.arange(0, ROWS, 20)
    with pytest.raises(InputError, match="1 of 1000 rows are not finite, first of row 5"):
        checked_rates(accepted, checked, accepted[checked], features)


def test_a_row_that_is_named_twice_among_the_checked_ones_is_refused():
    accepted, checked = np.arange(ROWS) % 3 == 0, np.array([3, 8, 3])
    with pytest.raises(InputError, match="named twice"):
        checked_rates(accepted, checked, accepted[checked], np.ones((ROWS, 1)))


def test_predictions_of_checked_rows_do_not_know_their_own_label():
    right, _, features = world()
    checked = drawn(0, 60)
    labels = right[checked]
    before = cross_predictions(features, checked, labels, generator=np.random.default_rng(0))
    flipped = labels.copy()
    flipped[0] = ~flipped[0]
    after = cross_predictions(features, checked, flipped, generator=np.random.default_rng(0))
    assert after[checked[0]] == before[checked[0]]
    assert (after != before).sum() > ROWS / 2


def test_the_regression_has_no_gradient_left_and_survives_one_label():
    right, _, features = world()
    design = np.column_stack([np.ones(ROWS), (features - features.mean()) / features.std()])
    coefficients = ridge_logistic(design, right)
    chance = 1 / (1 + np.exp(-design @ coefficients))
    gradient = design.T @ (right - chance) - np.array([0.0, coefficients[1]])
    pseudo = 0.5 - 1 / (1 + np.exp(-coefficients[0]))
    assert gradient == pytest.approx([-pseudo, 0.0], abs=1e-6)
    assert np.isfinite(ridge_logistic(design, np.ones(ROWS, dtype=bool))).all()
