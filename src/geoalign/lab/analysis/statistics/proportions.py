"""The interval of a plain proportion, whose trials are independent."""

from __future__ import annotations

import math

from scipy.special import ndtri

from geoalign.errors import InputError
from geoalign.method.intervals import Interval


def wilson_interval(successes: int, trials: int, *, level: float = 0.95) -> Interval:
    """Wilson's score interval: stays inside [0, 1] and keeps a width at 0 and at `trials` successes.

    Centre (p + z^2/2n) / (1 + z^2/n), half width z sqrt(p (1 - p)/n + z^2/4n^2) / (1 + z^2/n). For trials that come in
    groups (several answers to one problem) it is too narrow: `clustered_proportion` is meant for those.

    Returns:
        The interval; all NaN without trials.

    Raises:
        InputError: successes outside 0..trials, or a level outside (0, 1).
    """
    if not 0 < level < 1:
        raise InputError(f"level: expected a number in (0, 1), got {level}")
    if not 0 <= successes <= trials:
        raise InputError(f"successes: expected a number in 0..{trials} (trials), got {successes}")
    if trials == 0:
        return Interval(math.nan, math.nan, math.nan)
    z = float(ndtri((1 + level) / 2))
    share = successes / trials
    shrink = 1 + z * z / trials
    centre = (share + z * z / (2 * trials)) / shrink
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / shrink
    return Interval(share, max(0.0, centre - half), min(1.0, centre + half))
