"""Error rates from drawn rows of which some have no label.

Whoever passes a row over may do so because it is a hard one, so nobody knows that it is missing at random. The interval
therefore holds three: that of the labelled rows alone, that if the verifier judged all others rightly, and that
if it judged them all wrongly. Where these are Wilson's intervals, any other truth of the rows without a label gives an
interval within. A prediction-powered one depends on which rows are right, too, and one truth may call for another
method than the next: then another truth may give an interval that reaches a few hundredths beyond. Where every row was
drawn, the interval reaches from the one rate to the other, as any other truth gives a rate between.
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
    """Both rates by C drawn rows, estimated by the labelled ones, with intervals that allow for what the others may be.

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
        false_positive_rate=_widened_to(
            alone.false_positive_rate, judged_rightly.false_positive_rate, judged_wrongly.false_positive_rate
        ),
        false_negative_rate=_widened_to(
            alone.false_negative_rate, judged_rightly.false_negative_rate, judged_wrongly.false_negative_rate
        ),
    )


def _widened_to(alone: CheckedRate, judged_rightly: CheckedRate, judged_wrongly: CheckedRate) -> CheckedRate:
    """The rate of the labelled rows alone, with an interval that holds those of all three, and its estimate.

    Where all rows of the files were drawn, the other two are the rates themselves. They alone are the ends then, for no
    row was left to chance.
    """
    rates = [judged_rightly, judged_wrongly]
    if judged_rightly.method != "all rows":
        rates.append(alone)
    low = min(rate.low for rate in rates)
    high = max(rate.high for rate in rates)
    return replace(alone, estimate=min(max(alone.estimate, low), high), low=low, high=high)
