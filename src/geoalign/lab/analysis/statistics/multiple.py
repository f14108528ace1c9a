"""Several comparisons at a time: Holm's correction."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geoalign.errors import InputError


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Holm's step-down adjusted p-values (1979): they keep the chance of any false finding below the level.

    With m values sorted upwards, adjusted p_(i) = max over j <= i of min(1, (m - j + 1) p_(j)).

    Args:
        p_values: [n] in [0, 1]. A NaN is a comparison without a test: it stays NaN and does not count in m.

    Returns:
        [n] adjusted values, in the order given.

    Raises:
        InputError: more than one dimension, or a value outside [0, 1].
    """
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1:
        raise InputError(f"p_values: expected one dimension, got shape {values.shape}")
    known = np.flatnonzero(~np.isnan(values))
    wrong = [float(value) for value in values[known] if not 0 <= value <= 1]
    if wrong:
        raise InputError(f"p_values: expected numbers in [0, 1], got {wrong[0]}")
    adjusted = np.full(len(values), np.nan)
    order = known[np.argsort(values[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factors * values[order]))
    return adjusted
