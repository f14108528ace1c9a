"""Curves: smoothed; how restless one is, by its noise around a local trend and its deepest fall; pass@k over k."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, fsum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoalign.errors import InputError


def oscillation(values: ArrayLike, steps: ArrayLike | None = None) -> float:
    """Standard deviation of a curve around the straight line through each point's neighbours, in units of the curve.

    The estimator of Gasser, Sroka and Jennen-Steinmetz (1986): e_i = a x_{i-1} + b x_{i+1} - x_i, with a and b the
    linear interpolation weights, and s^2 = mean of e_i^2 / (a^2 + b^2 + 1); at equal distances e is half the second
    difference and the divisor 3/2. A steady rise or fall gives 0; independent noise around it gives that noise's
    standard deviation. Unlike the spread around a smoothed curve it does not take the lag of the smoothing for unrest.
    An evaluation's own sampling error is part of it: compare only curves measured on equally many answers.

    Args:
        values: [n] the curve; NaN points are left out.
        steps: [n] rising positions of the points; None: equal distances.

    Returns:
        A number >= 0; NaN with fewer than three points.
    """
    curve = np.asarray(values, dtype=np.float64)
    at_steps = np.arange(len(curve)) if steps is None else np.asarray(steps)
    known = ~np.isnan(curve)
    curve, at_steps = curve[known], at_steps[known].astype(np.float64)
    if len(curve) < 3:
        return float("nan")
    a = (at_steps[2:] - at_steps[1:-1]) / (at_steps[2:] - at_steps[:-2])
    b = 1 - a
    residual = a * curve[:-2] + b * curve[2:] - curve[1:-1]
    return float(np.sqrt(np.mean(residual**2 / (a**2 + b**2 + 1))))


def largest_drop(values: ArrayLike) -> float:
    """The deepest fall below the best value so far: max over t of (max up to t) - x_t; 0 where a curve never falls.

    NaN points are left out; a curve without a point gives NaN.
    """
    curve = np.asarray(values, dtype=np.float64)
    curve = curve[~np.isnan(curve)]
    return float(np.max(np.maximum.accumulate(curve) - curve)) if len(curve) else float("nan")


def ema(values: ArrayLike, keep: float = 0.6) -> NDArray[np.float64]:
    """Exponential moving average as in the paper's curves: s_t = keep s_{t-1} + (1 - keep) x_t, s_0 = x_0.

    Args:
        values: [n] numbers. A NaN is a missing point: the average passes over it and stays as it was.
        keep: share of the old value; the paper's 0.6.

    Returns:
        [n] averages; NaN before the first number.
    """
    series = np.asarray(values, dtype=np.float64)
    smoothed = np.full_like(series, np.nan)
    state = np.nan
    for at, value in enumerate(series):
        if not np.isnan(value):
            state = value if np.isnan(state) else keep * state + (1 - keep) * value
        smoothed[at] = state
    return smoothed


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """1 - C(n - c, k) / C(n, k), the unbiased estimate from n = `samples` answers of which c = `correct` are right.

    Chen et al. 2021 (arXiv 2107.03374), Eq. 1. Computed in whole numbers and divided once, so that it is exact to the
    last bit even where it is close to 0 or 1. With fewer than k wrong answers it is 1.
    """
    if not 1 <= k <= samples:
        raise InputError(f"k: expected 1 to {samples} (samples), got {k}")
    if not 0 <= correct <= samples:
        raise InputError(f"correct: expected 0 to {samples} (samples), got {correct}")
    draws = comb(samples, k)
    return (draws - comb(samples - correct, k)) / draws


def mean_pass_at_k(correct: Sequence[int], *, samples: int, k: int) -> float:
    """The mean of `pass_at_k` over problems with `samples` answers each.

    Args:
        correct: right answers of each problem, of which there is at least one.
    """
    return fsum(pass_at_k(samples, count, k) for count in correct) / len(correct)


def powers_of_two(largest: int) -> list[int]:
    """1, 2, 4, ... up to `largest`."""
    return [2**power for power in range(largest.bit_length()) if 2**power <= largest]
