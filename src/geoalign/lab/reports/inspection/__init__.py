"""The page of an inspected dump: what `geoalign audit` flagged, group by group, in one file that opens from disk."""

from geoalign.lab.reports.inspection.page import build_inspection

__all__ = ["build_inspection"]
