"""The density criterion: which scores lie in the sparse upper tail (paper, "Experience Rectification")."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

# Up to here the density is evaluated at every score; beyond, on a grid and interpolated.
EXACT_SCORES = 4096
GRID_POINTS = 2048
# A kernel must be wider than this many grid steps, or interpolation would miss it.
STEPS_PER_BANDWIDTH = 8
MAX_GRID_POINTS = 16384
# The grid of the released code's first crossing, and of the figures.
CROSSING_POINTS = 200
# Scores whose spread is below this share of their size differ by rounding only.
ZERO_SPREAD = 1e-6


@dataclass(frozen=True, eq=False)
class Tail:
    """The sparse upper tail of N scores.

    Attributes:
        flagged: [N] the anomalous scores.
        mode: the score of highest density (the rightmost if several).
        peak: the density there.
        threshold: the lowest anomalous score ("pointwise") or the first sparse point ("first_crossing"); NaN if none.
        grid, density: the curve on 200 points from the lowest to the highest score, for figures.
    """

    flagged: Bool[np.ndarray, " n"]
    mode: float
    peak: float
    threshold: float
    grid: Float[np.ndarray, " g"]
    density: Float[np.ndarray, " g"]


def sparse_tail(
    scores: Float[np.ndarray, " n"], *, alpha: float, tail: Literal["pointwise", "first_crossing"] = "pointwise"
) -> Tail | None:
    """Flags the scores right of the mode whose density is below alpha times the peak.

    A Gaussian kernel density estimate with Scott's bandwidth; peak and mode are taken over the scores themselves.
    "pointwise" judges each score by the density there (the paper's text); "first_crossing" flags everything beyond the
    first of 200 grid points right of the mode that is sparse (the released code's rule).

    Args:
        scores: [N] finite.

    Returns:
        None where there is no density: fewer than two scores, or scores that differ by rounding only.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if len(scores) < 2 or scores.std() <= ZERO_SPREAD * np.abs(scores).max():
        return None
    # Takes most of a second to import, which only those who ask for a density pay.
    from scipy.stats import gaussian_kde

    estimate = gaussian_kde(scores)
    at_scores = _at(estimate, scores)
    peak = float(at_scores.max())
    mode = float(scores[at_scores == peak].max())
    grid = np.linspace(scores.min(), scores.max(), CROSSING_POINTS)
    on_grid = estimate(grid)
    if tail == "pointwise":
        flagged = (scores > mode) & (at_scores < alpha * peak)
        threshold = float(scores[flagged].min()) if flagged.any() else float("nan")
    else:
        sparse = grid[(grid > mode) & (on_grid < alpha * peak)]
        threshold = float(sparse[0]) if len(sparse) else float("nan")
        flagged = scores >= threshold
    return Tail(flagged=flagged, mode=mode, peak=peak, threshold=threshold, grid=grid, density=on_grid)


def _at(estimate: Any, scores: np.ndarray) -> np.ndarray:
    if len(scores) <= EXACT_SCORES:
        return estimate(scores)
    bandwidth = float(np.sqrt(estimate.covariance[0, 0]))
    wanted = int(np.ceil(STEPS_PER_BANDWIDTH * np.ptp(scores) / bandwidth))
    grid = np.linspace(scores.min(), scores.max(), min(max(GRID_POINTS, wanted), MAX_GRID_POINTS))
    return np.interp(scores, grid, estimate(grid))


def cap_highest(
    scores: Float[np.ndarray, " n"], flagged: Bool[np.ndarray, " n"], max_fraction: float | None
) -> Bool[np.ndarray, " n"]:
    """Keeps the highest flagged scores, at most `max_fraction` of all scores, rounded down.

    `max_fraction` None keeps all of them.
    """
    if max_fraction is None:
        return flagged
    limit = floor_share(max_fraction, len(scores))
    if flagged.sum() <= limit:
        return flagged
    kept = np.zeros_like(flagged)
    ranked = np.argsort(np.where(flagged, -scores, np.inf), kind="stable")
    kept[ranked[:limit]] = True
    return kept


def floor_share(share: float, count: int) -> int:
    """floor(share * count) for the decimal number that `share` was written as.

    0.29 of 100 is 29; in floating point 0.29 * 100 lies just below.
    """
    return int(Fraction(repr(float(share))) * count)
