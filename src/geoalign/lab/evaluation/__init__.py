"""Evaluations: sets, answers, scores and results."""
