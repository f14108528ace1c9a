"""Error rates from drawn rows of which some have no label.

Whoever passes a row over may do so because it is a hard one, so nobody knows that it is missing at random. The interval
therefore holds whatever the row is: the lower end of either rate is that if the verifier judged the row rightly, and
the upper end that if it judged it wrongly. Any other truth of these rows gives an interval between the two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float, Int

from geoalign.checks.rates import CheckedRate, CheckedRates

# Both rates by the drawn rows at some places of the order of drawing, and whether each of these is right.
RatesOf = Callable[[Int[np.ndarray, " k"], Bool[np.ndarray, " k"]], CheckedRates]


def rates_whatever_is_missing(
    rates_of: RatesOf, accepted: Bool[np.ndarray, " c"], right: Float[np.ndarray, " c"]
) -> CheckedRates:
    """Both rates by C drawn rows, estimated by those with a label, with intervals that hold whatever the others are.

    Args:
        rates_of: computes both rates.
        accepted: [C] the verifier's verdicts on the drawn rows.
        right: [C] 1 for a right row, 0 for a wrong one, NaN for one without a label.
    """
    is_known = ~np.isnan(right)
    stated = right == 1
    labelled = np.flatnonzero(is_known)
    alone = rates_of(labelled, stated[labelled])
    if is_known.all():
        return alone
    drawn = np.arange(len(right))
    judged_rightly = rates_of(drawn, np.where(is_known, stated, accepted))
    judged_wrongly = rates_of(drawn, np.where(is_known, stated, ~accepted))
    return CheckedRates(
        false_positive_rate=_between(
            alone.false_positive_rate, judged_rightly.false_positive_rate, judged_wrongly.false_positive_rate
        ),
        false_negative_rate=_between(
            alone.false_negative_rate, judged_rightly.false_negative_rate, judged_wrongly.false_negative_rate
        ),
    )


def _between(alone: CheckedRate, lowest: CheckedRate, highest: CheckedRate) -> CheckedRate:
    """The rate of the labelled rows alone, with an interval that has both others in it."""
    low = min(lowest.low, highest.low)
    high = max(lowest.high, highest.high)
    return replace(alone, estimate=min(max(alone.estimate, low), high), low=low, high=high)
