"""Intervals, paired differences, rankings and curves in numpy; no torch."""

from geoalign.statistics.curves import largest_drop, oscillation
from geoalign.statistics.intervals import Interval, clustered_proportion, mean_interval
from geoalign.statistics.multiple import holm
from geoalign.statistics.paired import MIN_SEEDS, PairedDifference, paired_difference, seed_interval, spread
from geoalign.statistics.proportions import wilson_interval
from geoalign.statistics.ranking import RankingCounts, auroc, average_precision, ranking_counts
from geoalign.statistics.smoothing import ema

__all__ = [
    "MIN_SEEDS",
    "Interval",
    "PairedDifference",
    "RankingCounts",
    "auroc",
    "average_precision",
    "clustered_proportion",
    "ema",
    "holm",
    "largest_drop",
    "mean_interval",
    "oscillation",
    "paired_difference",
    "ranking_counts",
    "seed_interval",
    "spread",
    "wilson_interval",
]
