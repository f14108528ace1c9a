"""Curating dumps of rollouts without a trainer: readers of the engines' own files, scores, curated dumps, a page."""
