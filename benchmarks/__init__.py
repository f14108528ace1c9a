"""Measurements that no command of `geoalign` makes: `python -m benchmarks.NAME` from the root of the repository."""
