"""P(a response is right), predicted for every row from the few rows that were checked."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit

from geoalign.errors import InputError

FOLDS = 5
# Precision of the normal prior of each coefficient, of features in units of their standard deviation.
RIDGE = 1.0
_NEWTON_STEPS = 25


def cross_predictions(
    features: Float[np.ndarray, "n k"],
    checked: Int[np.ndarray, " c"],
    right: Bool[np.ndarray, " c"],
    *,
    generator: np.random.Generator,
) -> Float[np.ndarray, " n"]:
    """P(right) of every row, by logistic regressions on the checked rows.

    The checked rows are split into five folds. A checked row is predicted by the regression that was fitted without its
    fold, so that its own label has no part in its prediction; every other row gets the mean of the five predictions
    (cross-prediction: Zrnic and Candes, 2024).

    Args:
        features: [N, K] finite numbers that may tell right from wrong, such as verdicts and the answer's share of its
            group. Those that are the same for all rows are left out.
        checked: [C] the rows that were checked, each once.
        right: [C] what the checks say of them.
        generator: draws the folds.

    Returns:
        [N] values in (0, 1). With fewer than two checked rows in a fold, the rate of right rows among the checked ones.

    Raises:
        InputError: a feature is not finite, or a row was checked twice.
    """
    not_finite = ~np.isfinite(features).all(axis=1)
    if not_finite.any():
        raise InputError(
            f"The features of {not_finite.sum()} of {len(features)} rows are not finite, first of row "
            f"{not_finite.argmax()}. Give a number where one is missing, such as the mean of the others."
        )
    if len(np.unique(checked)) < len(checked):
        raise InputError("Some rows are named twice among the checked ones. Name each row once, with one label.")
    rows = len(features)
    if len(checked) < 2 * FOLDS:
        return np.full(rows, (right.sum() + 0.5) / (len(right) + 1))
    scaled = _standardised(features)
    fold_of = generator.permutation(len(checked)) % FOLDS
    predictions = np.zeros((FOLDS, rows))
    for fold in range(FOLDS):
        others = fold_of != fold
        coefficients = ridge_logistic(scaled[checked[others]], right[others])
        predictions[fold] = expit(scaled @ coefficients)
    predicted = predictions.mean(axis=0)
    predicted[checked] = predictions[fold_of, checked]
    return predicted


def ridge_logistic(features: Float[np.ndarray, "n k"], right: Bool[np.ndarray, " n"]) -> Float[np.ndarray, " k"]:
    """[K] the coefficients of greatest posterior, by Newton's method; the first feature is the constant, without prior.

    Maximises the sum of log P(right_i | x_i) - RIDGE / 2 |b|^2 with P(right | x) = sigmoid(x b). Half a pseudo-count of
    each label keeps the constant finite where all labels agree.
    """
    coefficients = np.zeros(features.shape[1])
    prior = np.full(features.shape[1], RIDGE)
    prior[0] = 0.0
    constant = np.zeros(features.shape[1])
    constant[0] = 1.0
    for _ in range(_NEWTON_STEPS):
        chance = expit(features @ coefficients)
        base = expit(coefficients[0])
        gradient = features.T @ (right - chance) - prior * coefficients + constant * (0.5 - base)
        curvature = (features * (chance * (1 - chance))[:, None]).T @ features + np.diag(prior)
        curvature += np.outer(constant, constant) * base * (1 - base)
        step = np.linalg.solve(curvature, gradient)
        coefficients = coefficients + step
        if np.abs(step).max() < 1e-8:
            break
    return coefficients


def _standardised(features: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k1"]:
    """The constant 1, and the features that vary with mean 0 and standard deviation 1."""
    deviation = features.std(axis=0)
    varying = features[:, deviation > 0]
    scaled = (varying - varying.mean(axis=0)) / deviation[deviation > 0]
    return np.column_stack([np.ones(len(features)), scaled])
