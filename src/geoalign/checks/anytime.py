"""An interval of an error rate that holds at every moment of checking, however often one looks.

The rate theta is the share of errors in a class. Let y = 1 for a row of the class and v = 1 for an error. If theta is
the rate, Z = y (v - theta) has mean 0 over all N rows. Rows are drawn uniformly and without replacement, so that before
the t-th check the rows that are left have the mean mu_t = - sum_{s<t} Z_s / (N - t + 1). Whoever bets the fraction g of
the largest stake on Z_t > mu_t, or on Z_t < mu_t, has the capital

    K_t = prod_{s<=t} (1 + lambda_s (Z_s - mu_s)),

which does not grow on average (Waudby-Smith and Ramdas, 2024). So the mean of several such capitals exceeds 1/alpha at
any time with probability at most alpha (Ville's inequality), and the interval is all rates at which it never did.

The capital is known on a grid of rates. Where a rate of the grid is excluded and its neighbour is not, the end lies
somewhere between them, so it is put on the excluded one: the interval errs on the wide side, by a step of the grid.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logsumexp

_RATES = np.linspace(0, 1, 1001)
# The fractions of the largest stake: small ones win late and large ones early, and the capital is their mean.
_FRACTIONS = np.geomspace(0.01, 0.9, 12)


def anytime_intervals(
    in_class: Bool[np.ndarray, " c"], error: Bool[np.ndarray, " c"], *, rows: int, level: float = 0.95
) -> Float[np.ndarray, "c 2"]:
    """[C, 2] the ends of the interval after each check; each lies within the one before.

    Args:
        in_class: [C] whether a checked row is in the class, in the order in which rows were drawn and checked.
        error: [C] whether the verifier's verdict on it is the error.
        rows: N, from which the checked rows were drawn without replacement.
        level: the probability that all of the intervals hold.
    """
    log_capital = np.zeros((2, len(_FRACTIONS), len(_RATES)))
    possible = np.ones(len(_RATES), dtype=bool)
    total = np.zeros(len(_RATES))
    ends = np.empty((len(in_class), 2))
    for check, (member, wrong) in enumerate(zip(in_class, error, strict=True)):
        value = (float(wrong) - _RATES) if member else np.zeros(len(_RATES))
        mean = -total / (rows - check)
        total += value
        # The largest stakes under which no outcome loses more than everything: Z lies in [-theta, 1 - theta].
        largest_on_more = 1 / np.maximum(_RATES + mean, 1e-9)
        largest_on_less = 1 / np.maximum(1 - _RATES - mean, 1e-9)
        surprise = value - mean
        for side, stake in enumerate((largest_on_more, -largest_on_less)):
            gain = _FRACTIONS[:, None] * stake * surprise
            log_capital[side] += np.log1p(np.maximum(gain, -0.999999))
        log_mean_capital = logsumexp(log_capital, axis=(0, 1)) - np.log(log_capital[..., 0].size)
        possible &= log_mean_capital < -np.log(1 - level)
        ends[check] = _ends_around(possible) if possible.any() else ends[check - 1]
    return ends


def _ends_around(possible: Bool[np.ndarray, " r"]) -> tuple[float, float]:
    """The rates of the grid next to the possible ones on either side; 0 or 1 where there is none.

    Args:
        possible: [R] whether each rate of the grid is possible; one at least is.
    """
    places = np.flatnonzero(possible)
    lower = max(places[0] - 1, 0)
    upper = min(places[-1] + 1, len(_RATES) - 1)
    return float(_RATES[lower]), float(_RATES[upper])
