"""The page of an inspected dump: what `geoalign audit` flagged, group by group, in one file that opens from disk."""
