"""Intervals, paired differences, rankings and curves in numpy; no torch."""

from geoalign.lab.analysis.statistics.bootstrap import grouped_bootstrap
from geoalign.lab.analysis.statistics.curves import ema, largest_drop, oscillation
from geoalign.lab.analysis.statistics.intervals import (
    MIN_SEEDS,
    PairedDifference,
    holm,
    paired_difference,
    seed_interval,
    spread,
    wilson_interval,
)
from geoalign.lab.analysis.statistics.power import share_interval, smallest_detectable
from geoalign.lab.analysis.statistics.ranking import RankingCounts, auroc, average_precision, ranking_counts
from geoalign.method.intervals import Interval, clustered_proportion, mean_interval

__all__ = [
    "MIN_SEEDS",
    "Interval",
    "PairedDifference",
    "RankingCounts",
    "auroc",
    "average_precision",
    "clustered_proportion",
    "ema",
    "grouped_bootstrap",
    "holm",
    "largest_drop",
    "mean_interval",
    "oscillation",
    "paired_difference",
    "ranking_counts",
    "seed_interval",
    "share_interval",
    "smallest_detectable",
    "spread",
    "wilson_interval",
]
