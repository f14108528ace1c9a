"""The density criterion: which scores lie in the sparse upper tail (paper, "Experience Rectification")."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

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
# Points of the density taken at a time: a block of kernels fits into a processor's cache.
_BLOCK = 64
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
    width = bandwidth(scores)
    at_scores = _at_scores(scores, width)
    peak = float(at_scores.max())
    mode = float(scores[at_scores == peak].max())
    grid = np.linspace(scores.min(), scores.max(), CROSSING_POINTS)
    on_grid = kernel_density(scores, grid, width)
    if tail == "pointwise":
        flagged = (scores > mode) & (at_scores < alpha * peak)
        threshold = float(scores[flagged].min()) if flagged.any() else float("nan")
    else:
        sparse = grid[(grid > mode) & (on_grid < alpha * peak)]
        threshold = float(sparse[0]) if len(sparse) else float("nan")
        flagged = scores >= threshold
    return Tail(flagged=flagged, mode=mode, peak=peak, threshold=threshold, grid=grid, density=on_grid)


def bandwidth(scores: Float[np.ndarray, " n"]) -> float:
    """Scott's rule in one dimension: n^(-1/5) times the standard deviation (one degree of freedom less)."""
    return float(len(scores) ** -0.2 * scores.std(ddof=1))


def kernel_density(
    scores: Float[np.ndarray, " n"], points: Float[np.ndarray, " m"], width: float
) -> Float[np.ndarray, " m"]:
    """The Gaussian kernel density estimate of the scores at each point, [M].

    `scipy.stats.gaussian_kde` up to rounding, in a third of its time: the exponentials are taken by whole blocks.
    """
    scaled = scores / width
    density = np.empty(len(points))
    for start in range(0, len(points), _BLOCK):
        distance = points[start : start + _BLOCK, None] / width - scaled
        np.square(distance, out=distance)
        distance *= -0.5
        density[start : start + _BLOCK] = np.exp(distance, out=distance).sum(1)
    return density / (len(scores) * width * math.sqrt(2 * math.pi))


def _at_scores(scores: np.ndarray, width: float) -> np.ndarray:
    if len(scores) <= EXACT_SCORES:
        return kernel_density(scores, scores, width)
    wanted = int(np.ceil(STEPS_PER_BANDWIDTH * np.ptp(scores) / width))
    grid = np.linspace(scores.min(), scores.max(), min(max(GRID_POINTS, wanted), MAX_GRID_POINTS))
    return np.interp(scores, grid, kernel_density(scores, grid, width))


def cap_highest(
    scores: Float[np.ndarray, " n"], flagged: Bool[np.ndarray, " n"], max_fraction: float | None
) -> Bool[np.ndarray, " n"]:
    """Keeps the highest flagged scores, at most `max_fraction` of all scores (rounded down); None: all of them."""
    if max_fraction is None:
        return flagged
    limit = int(max_fraction * len(scores))
    if flagged.sum() <= limit:
        return flagged
    kept = np.zeros_like(flagged)
    ranked = np.argsort(np.where(flagged, -scores, np.inf), kind="stable")
    kept[ranked[:limit]] = True
    return kept
