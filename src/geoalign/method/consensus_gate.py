"""Is there a consensus at all? Accuracy on groups never trained on, pooled over calls, against chance."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from geoalign.method.intervals import Interval, clustered_proportion

CHANCE = 0.5


@dataclass
class ConsensusGate:
    """Pools the orientation accuracy of the last `window` calls and opens where it is above chance.

    Each call adds, group by group, how many pairs were ordered rightly and how many there were. The gate is open where
    the lower bound of the accuracy's interval at `level`, groups taken as independent, lies above one half. Without
    any judged group it is closed: there is nothing that speaks for a consensus.
    """

    level: float
    window: int
    _calls: deque[np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        self._calls = deque(maxlen=self.window)

    def add(self, right: Float[np.ndarray, " g"], total: Float[np.ndarray, " g"]) -> None:
        """Adds one call: [G] right pairs and [G] pairs of each judged group; a call without any counts as a call."""
        self._calls.append(np.stack([right, total]).astype(np.float64))

    @property
    def accuracy(self) -> Interval:
        """The pooled accuracy with its interval; NaN before the first judged group."""
        if not self._calls:
            return Interval(float("nan"), float("nan"), float("nan"))
        right, total = np.concatenate(list(self._calls), axis=1)
        return clustered_proportion(right, total, level=self.level)

    @property
    def open(self) -> bool:
        """True where the consensus is better than chance."""
        return self.accuracy.low > CHANCE

    def state(self) -> list[np.ndarray]:
        """The pooled calls, oldest first: [2, G] right pairs and pairs."""
        return list(self._calls)

    def load(self, calls: list[np.ndarray]) -> None:
        """Restores `state`."""
        self._calls = deque((np.asarray(call, dtype=np.float64) for call in calls), maxlen=self.window)
