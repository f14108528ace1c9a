"""How close a run's advantages came to those of the true rewards: one definition for summary, report and comparison.

A generation's cosine is what its curation logs, with the advantages of the true rewards: of the advantages as they were
applied, and of those of the rewards as they came, which is what GRPO would have been trained with on the same rollouts.
A run has the means over its generations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geoalign.lab.analysis.statistics import Interval, mean_interval
from geoalign.lab.store.run import Run

# As a result's series call them; the log has them after "geoalign/".
APPLIED, OBSERVED = "advantage_cosine", "observed_advantage_cosine"


@dataclass(frozen=True)
class Agreement:
    """Mean cosines over `generations` with Student's t intervals; NaN where none was logged."""

    applied: Interval
    observed: Interval
    generations: int


def agreement(
    applied: Sequence[float] | NDArray[np.float64], observed: Sequence[float] | NDArray[np.float64]
) -> Agreement:
    """A run's agreement from the cosines of its generations; steps without a generation, NaN, are left out."""
    values = np.asarray(applied, dtype=np.float64)
    as_they_came = mean_interval(np.asarray(observed, dtype=np.float64))
    return Agreement(mean_interval(values), as_they_came, int((~np.isnan(values)).sum()))


def agreement_of(run: Run) -> Agreement:
    """The agreement of a run from its log."""
    applied, observed = (run.series(f"geoalign/{name}").values for name in (APPLIED, OBSERVED))
    return agreement(applied, observed)
