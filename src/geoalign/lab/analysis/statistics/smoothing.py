"""Smoothing of training curves."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoalign.errors import InputError


def ema(values: ArrayLike, keep: float = 0.6) -> NDArray[np.float64]:
    """Exponential moving average as in the paper's curves: s_t = keep s_{t-1} + (1 - keep) x_t, s_0 = x_0.

    Args:
        values: [n] numbers. A NaN is a missing point: the average passes over it and stands still there.
        keep: share of the old value; the paper's 0.6.

    Returns:
        [n] averages; NaN before the first number.

    Raises:
        InputError: more than one dimension, or `keep` outside [0, 1).
    """
    series = np.asarray(values, dtype=np.float64)
    if series.ndim != 1:
        raise InputError(f"values: expected one dimension, got shape {series.shape}")
    if not 0 <= keep < 1:
        raise InputError(f"keep: expected a number in [0, 1), got {keep}")
    smoothed = np.full_like(series, np.nan)
    state = np.nan
    for at, value in enumerate(series):
        if not np.isnan(value):
            state = value if np.isnan(state) else keep * state + (1 - keep) * value
        smoothed[at] = state
    return smoothed
