"""The density criterion: which scores lie in the sparse upper tail (paper, "Experience Rectification")."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geoalign.method.ties import power_of_two

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
# Densities that differ by less than this share are equal.
EQUAL_DENSITY = 1e-12
# Kernels evaluated at a time. On a CPU few enough for its cache, and fewer than the 32,768 from which on torch divides
# an operation among threads: on busy cores they wait longer for each other than all of it takes one thread.
_BLOCK = 30_000
_ACCELERATOR_BLOCK = 1 << 24


@dataclass(frozen=True, eq=False)
class KernelDensity:
    """A Gaussian kernel density estimate of N scores with Scott's bandwidth, as scipy's `gaussian_kde` makes it.

    f(x) = 1 / (N b sqrt(2 pi)) sum over i of exp(-(x - s_i)^2 / (2 b^2)), b = N^(-1/5) std(s), the standard deviation
    with one degree of freedom less than there are scores.

    Attributes:
        scores: [N] in ascending order, float64.
        bandwidth: b, of no dimension, on the scores' device.
    """

    scores: Float[Tensor, " n"]
    bandwidth: Float[Tensor, ""]

    @classmethod
    def from_ascending(cls, ascending: Float[Tensor, " n"]) -> KernelDensity:
        """The estimate from scores in ascending order, two at least."""
        return cls(scores=ascending, bandwidth=_deviation(ascending, correction=1) * len(ascending) ** -0.2)

    def at(self, points: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
        """The density at each point."""
        unit = self._unit
        scores = self.scores / unit
        blocks = (points / unit).split(self._rows_per_block(len(scores)))
        sums = [_kernels(block, scores).sum(dim=1) for block in blocks]
        return self._density(torch.cat(sums))

    def at_scores(self) -> Float[Tensor, " n"]:
        """The density at each of the scores: all kernels up to 4,096 scores, beyond interpolated on a grid."""
        if len(self.scores) > EXACT_SCORES:
            return self._interpolated()
        scores = self.scores / self._unit
        total = torch.zeros_like(scores)
        # The kernel between two scores counts at both: each is evaluated once.
        for rows in self._blocks():
            kernels = _kernels(scores[rows], scores[rows.start :])
            total[rows] += kernels.sum(dim=1)
            total[rows.stop :] += kernels[:, rows.stop - rows.start :].sum(dim=0)
        return self._density(total)

    def curve(self) -> tuple[Float[Tensor, " g"], Float[Tensor, " g"]]:
        """200 points from the lowest to the highest score, and the density there."""
        grid = self._grid(CROSSING_POINTS)
        return grid, self.at(grid)

    def _interpolated(self) -> Float[Tensor, " n"]:
        """The density on a grid, interpolated at each of the scores."""
        # One copy from the device for both numbers.
        span, bandwidth = torch.stack([self.scores[-1] - self.scores[0], self.bandwidth]).tolist()
        wanted = math.ceil(STEPS_PER_BANDWIDTH * span / bandwidth)
        grid = self._grid(min(max(GRID_POINTS, wanted), MAX_GRID_POINTS))
        density = self.at(grid)
        right = torch.searchsorted(grid, self.scores).clamp(min=1, max=len(grid) - 1)
        left = right - 1
        share = (self.scores - grid[left]) / (grid[right] - grid[left])
        return density[left] + share * (density[right] - density[left])

    def _grid(self, points: int) -> Float[Tensor, " g"]:
        """[G] so many points, evenly spread from the lowest to the highest score, both of them exact."""
        share = torch.linspace(0, 1, points, dtype=self.scores.dtype, device=self.scores.device)
        low = self.scores[0]
        high = self.scores[-1]
        return torch.where(share < 1, low + share * (high - low), high)

    @property
    def _unit(self) -> Float[Tensor, ""]:
        # exp(-(x - s)^2 / (2 b^2)) = 2^(-(x' - s')^2) with x' = x / (b sqrt(2 ln 2)).
        return self.bandwidth * math.sqrt(2 * math.log(2))

    def _density(self, kernels: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
        """f from the sums of kernels."""
        return kernels / (len(self.scores) * math.sqrt(2 * math.pi) * self.bandwidth)

    def _rows_per_block(self, columns: int) -> int:
        """How many rows of kernels with this many columns fit into a block."""
        block = _BLOCK if self.scores.device.type == "cpu" else _ACCELERATOR_BLOCK
        return max(1, block // columns)

    def _blocks(self) -> Iterator[slice]:
        """The rows of the upper triangle of all kernels, a block at a time; later rows are shorter."""
        start = 0
        while start < len(self.scores):
            stop = min(start + self._rows_per_block(len(self.scores) - start), len(self.scores))
            yield slice(start, stop)
            start = stop


def _kernels(points: Float[Tensor, " m"], scores: Float[Tensor, " n"]) -> Float[Tensor, "m n"]:
    """2^(-(x - s)^2) of every point and score. For `exp` torch asks MKL on a CPU, which starts threads of its own."""
    distance = points[:, None] - scores
    return distance.square_().neg_().exp2_()


@dataclass(frozen=True, eq=False)
class Tail:
    """The sparse upper tail of N scores.

    Attributes:
        flagged: [N] the anomalous scores: all of at least `threshold`, and no others.
        mode: the score of highest density (the rightmost if several).
        peak: the density there.
        threshold: the lowest anomalous score ("pointwise") or the first sparse point ("first_crossing"); NaN if none.
        estimate: the density, for figures.
    """

    flagged: Bool[Tensor, " n"]
    mode: float
    peak: float
    threshold: float
    estimate: KernelDensity


def sparse_tail(
    scores: Float[Tensor, " n"], *, alpha: float, tail: Literal["pointwise", "first_crossing"] = "pointwise"
) -> Tail | None:
    """Flags the scores in the sparse upper tail: right of the mode, with density below alpha times the peak.

    A Gaussian kernel density estimate with Scott's bandwidth, on the device of the scores; peak and mode are taken over
    the scores themselves. A tail has no end but the highest score, so what is flagged is all from a threshold on:

    - "pointwise" (the paper's text: a score in the high tail whose density is below alpha times the peak) flags the
      scores above the last one that is not sparse. Every flagged score is sparse. A sparse score in a valley, with a
      dense mode above it, is not in the tail, nor is that mode.
    - "first_crossing" (the released code's rule) flags everything beyond the first of 200 grid points right of the mode
      that is sparse: after a valley also a dense second mode.

    Args:
        scores: [N] finite.

    Returns:
        None where there is no density: fewer than two scores, or scores that differ by rounding only.
    """
    scores = _wide(scores)
    if len(scores) < 2:
        return None
    rounding = ZERO_SPREAD * scores.abs().max()
    if bool(_deviation(scores, correction=0) <= rounding):
        return None
    ascending = scores.sort().values
    estimate = KernelDensity.from_ascending(ascending)
    density = estimate.at_scores()
    peak = density.max()
    mode = ascending[density >= (1 - EQUAL_DENSITY) * peak].max()
    none = torch.full_like(peak, torch.nan)
    if tail == "pointwise":
        last_dense = ascending.masked_fill(density < alpha * peak, -torch.inf).max()
        beyond = ascending > last_dense
        first = ascending.masked_fill(~beyond, torch.inf).min()
        threshold = torch.where(beyond.any(), first, none)
    else:
        grid, on_grid = estimate.curve()
        sparse = (grid > mode) & (on_grid < alpha * peak)
        first = grid.masked_fill(~sparse, torch.inf).min()
        threshold = torch.where(sparse.any(), first, none)
    # One copy from the device for all three numbers.
    numbers = torch.stack([mode, peak, threshold]).tolist()
    return Tail(
        flagged=scores >= threshold,
        mode=numbers[0],
        peak=numbers[1],
        threshold=numbers[2],
        estimate=estimate,
    )


def _deviation(scores: Float[Tensor, " n"], *, correction: int) -> Float[Tensor, ""]:
    """The standard deviation, in a unit in which no square leaves the range of the dtype."""
    unit = power_of_two(scores.abs().max())
    return (scores / unit).std(correction=correction) * unit


def _wide(scores: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The scores in float64, on the CPU where their device has none."""
    return (scores.cpu() if scores.device.type == "mps" else scores).double()


def cap_highest(
    scores: Float[Tensor, " n"], flagged: Bool[Tensor, " n"], max_fraction: float | None
) -> Bool[Tensor, " n"]:
    """Keeps the highest flagged scores, at most `max_fraction` of all scores, rounded down.

    Of equal scores the earlier ones are kept. `max_fraction` None keeps all of them.
    """
    if max_fraction is None:
        return flagged
    limit = floor_share(max_fraction, len(scores))
    ranked = scores.masked_fill(~flagged, -torch.inf).argsort(descending=True, stable=True)
    kept = torch.zeros_like(flagged)
    kept[ranked[:limit]] = True
    return kept & flagged


def floor_share(share: float, count: int) -> int:
    """floor(share * count) for the decimal number that `share` was written as.

    0.29 of 100 is 29; in floating point 0.29 * 100 lies just below.
    """
    return int(Fraction(repr(float(share))) * count)
