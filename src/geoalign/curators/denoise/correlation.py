"""Does a prediction say anything about rewards that it has not seen? Its correlation with them, over groups."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from scipy.stats import t as student
from torch import Tensor

from geoalign.method.intervals import Interval


def grouped_correlation(
    predictions: Float[Tensor, " n"],
    rewards: Float[Tensor, " n"],
    groups: Int[Tensor, " n"],
    weights: Float[Tensor, " n"],
    *,
    inflation: Float[Tensor, " n"] | None = None,
    level: float = 0.95,
) -> Interval:
    """r = sum w z y / sqrt(sum w z^2 sum w y^2), with an interval that takes groups, not rows, as independent.

    The variance is that of a sum of group totals: with e_g = sum over the group of w z (y - b z), b the slope,
    var(r) = sum e_g^2 / (sum w z^2 sum w y^2), with Student's t on one degree of freedom less than groups. Rows of a
    group share prompt and standardisation, so their products are not independent; groups are, as long as the
    predictions were made before their rewards were seen.

    Args:
        predictions: z, of rows that the fit had not seen.
        rewards: y, standardised within groups.
        groups: [N] which rows belong together, by any ids.
        weights: [N] weight of each row, 0 to leave it out.
        inflation: [N] factor on the variance of each row's group, equal within it; None: 1. Predictions by folds of
            one batch want 2: groups of different folds predict each other, so every product counts twice.

    Returns:
        The correlation with its bounds, -1 and 1 with a single group; NaN where predictions or rewards do not vary.
    """
    z, y, w = predictions.double(), rewards.double(), weights.double()
    spread, size = float(w @ z.square()), float(w @ y.square())
    if spread <= 0 or size <= 0:
        return Interval(float("nan"), float("nan"), float("nan"))
    product = float(w @ (z * y))
    _, member = groups.unique(return_inverse=True)
    residual = w * z * (y - product / spread * z)
    if inflation is not None:
        residual = residual * inflation.double().sqrt()
    totals = torch.zeros(int(member.max()) + 1, dtype=torch.float64).index_add_(0, member, residual)
    scale = (spread * size) ** 0.5
    count = len(groups[w > 0].unique())
    if count < 2:
        return Interval(product / scale, -1.0, 1.0)
    quantile = float(student.ppf((1 + level) / 2, count - 1))
    reach = quantile * float(totals.square().sum()) ** 0.5 / scale
    return Interval(product / scale, product / scale - reach, product / scale + reach)
