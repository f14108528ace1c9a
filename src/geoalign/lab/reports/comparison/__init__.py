"""From the compact results of a comparison to its table, its sentences and its page; no torch."""

from geoalign.lab.reports.comparison.page import build_comparison_report, compact_comparison

__all__ = ["build_comparison_report", "compact_comparison"]
