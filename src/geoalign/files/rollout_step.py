"""The rollouts of one step, as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from geoalign.files.columns import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class RolloutStep:
    """The rollouts of one step in the order of the file, all arrays [B]; prompts and responses stay there.

    Attributes:
        reward: as the curator saw it; NaN where the row could not be scored.
        true_reward: before corruption; NaN where not known.
        flipped: True where the reward was corrupted; meaningful only where `flip_known`.
        source: row whose content is there; -1 where it is left out.
    """

    step: int
    path: Path
    row: Ints
    group: Ints
    reward: Floats
    true_reward: Floats
    flipped: Bools
    flip_known: Bools
    score: Floats
    anomalous: Bools
    source: Ints
    weight: Floats

    def __len__(self) -> int:
        return len(self.row)

    @property
    def scored(self) -> Bools:
        return ~np.isnan(self.score)

    @property
    def replaced(self) -> Bools:
        """[B] True where the row has another row's content."""
        return (self.source != self.row) & (self.source >= 0)


@dataclass(frozen=True, eq=False)
class Density:
    """The density of the scores on a grid; `threshold` is NaN where no score was anomalous."""

    grid: Floats
    density: Floats
    peak: float
    mode: float
    alpha: float
    threshold: float
