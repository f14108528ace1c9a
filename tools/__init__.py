"""Programs for those who work on the repository, run from its root as `python -m tools.NAME`."""
