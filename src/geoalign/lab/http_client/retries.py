"""When a request is sent again: after growing pauses, or when the server says, until patience ends."""

from __future__ import annotations

import email.utils
import math
import random
from dataclasses import dataclass

# A server may ask for a longer pause; years of it are no answer.
LONGEST_ASKED_PAUSE = 120.0


@dataclass(frozen=True)
class Retries:
    """How often and how long one request is repeated.

    Attributes:
        patience: seconds over all attempts and pauses; the first attempt has its full time limit all the same.
        most: attempts after the first; None: as many as `patience` leaves time for.
        first_pause: seconds before the second attempt; doubled each time.
        longest_pause: the most that doubling leads to.
    """

    patience: float
    most: int | None = None
    first_pause: float = 0.25
    longest_pause: float = 15.0

    def pause(self, failures: int, asked: float | None, draw: random.Random) -> float:
        """Seconds before the next attempt: doubled pauses less up to a half at random, or what the server asks for.

        Args:
            failures: attempts so far, at least 1.
            asked: seconds that the server asks for; heeded up to `LONGEST_ASKED_PAUSE`.
        """
        doubled = min(self.first_pause * 2.0 ** min(failures - 1, 30), self.longest_pause)
        # Jitter: many waiting clients should not come back all at once.
        return max(doubled * draw.uniform(0.5, 1.0), min(asked or 0.0, LONGEST_ASKED_PAUSE))


def retry_after(header: str | None, *, now: float) -> float | None:
    """Seconds that a Retry-After header asks for (a number or a date), at least 0; None where it says nothing."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
