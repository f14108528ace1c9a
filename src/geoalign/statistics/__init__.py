"""Intervals, rankings and smoothing in numpy; no torch."""

from geoalign.statistics.intervals import Interval, clustered_proportion, mean_interval
from geoalign.statistics.proportions import wilson_interval
from geoalign.statistics.ranking import RankingCounts, auroc, average_precision, ranking_counts
from geoalign.statistics.smoothing import ema

__all__ = [
    "Interval",
    "RankingCounts",
    "auroc",
    "average_precision",
    "clustered_proportion",
    "ema",
    "mean_interval",
    "ranking_counts",
    "wilson_interval",
]
