"""Comparisons: arms x levels x seeds from one warm start, as worker processes, resumable, to one table."""
