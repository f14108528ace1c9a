"""Intervals, paired differences, rankings and curves in numpy; no torch."""

from geoalign.lab.analysis.statistics.curves import (
    ema,
    largest_drop,
    mean_pass_at_k,
    oscillation,
    pass_at_k,
    powers_of_two,
)
from geoalign.lab.analysis.statistics.intervals import (
    MIN_SEEDS,
    PairedDifference,
    holm,
    paired_difference,
    seed_interval,
    share_interval,
    spread,
    wilson_interval,
)
from geoalign.lab.analysis.statistics.ranking import auroc, average_precision
from geoalign.method.intervals import Interval, clustered_proportion, mean_interval

__all__ = [
    "MIN_SEEDS",
    "Interval",
    "PairedDifference",
    "auroc",
    "average_precision",
    "clustered_proportion",
    "ema",
    "holm",
    "largest_drop",
    "mean_interval",
    "mean_pass_at_k",
    "oscillation",
    "paired_difference",
    "pass_at_k",
    "powers_of_two",
    "seed_interval",
    "share_interval",
    "spread",
    "wilson_interval",
]
