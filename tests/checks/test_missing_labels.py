"""Error rates from drawn rows of which some have no label."""

import numpy as np
import pytest

from geoalign.checks.missing_labels import rates_whatever_is_missing
from geoalign.checks.rates import CheckedRate, CheckedRates, rate_by_wilson


def test_the_interval_holds_that_of_the_labelled_rows():
    """As where a prediction tells more with all rows: their intervals are narrower than that of the labelled ones."""
    alone = CheckedRate(0.2, 0.1, 0.4, "wilson", checked=3, errors=1)
    of_all = CheckedRate(0.25, 0.2, 0.3, "prediction-powered", checked=4, errors=1)

    def rates_of(places, right):
        rate = alone if len(places) == 3 else of_all
        return CheckedRates(rate, rate)

    accepted = np.array([True, False, True, False])
    found = rates_whatever_is_missing(rates_of, accepted, np.array([1.0, 0.0, np.nan, 1.0]))
    for rate in (found.false_positive_rate, found.false_negative_rate):
        assert (rate.low, rate.estimate, rate.high) == (0.1, 0.2, 0.4)


@pytest.mark.parametrize("seed", range(5))
def test_no_truth_of_the_other_rows_gives_a_wilson_interval_that_reaches_beyond(seed):
    rng = np.random.default_rng(seed)
    accepted = rng.random(60) < 0.5
    right = (rng.random(60) < 0.5).astype(float)
    right[:8] = np.nan

    def rates_of(places, is_right):
        judged = accepted[places]
        return CheckedRates(rate_by_wilson(judged[~is_right]), rate_by_wilson(~judged[is_right]))

    found = rates_whatever_is_missing(rates_of, accepted, right)
    for truth in range(2**8):
        of_others = [bool(truth >> place & 1) for place in range(8)]
        one = rates_of(np.arange(60), np.array([*of_others, *(right[8:] == 1)]))
        for name in ("false_positive_rate", "false_negative_rate"):
            whole = getattr(found, name)
            assert whole.low <= getattr(one, name).low
            assert getattr(one, name).high <= whole.high
