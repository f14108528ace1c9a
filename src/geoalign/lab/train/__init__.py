"""Whole runs: from settings to a run folder, and on from there after a kill."""
