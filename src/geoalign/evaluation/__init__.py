"""Evaluation: accuracy on problems with gold answers."""

from geoalign.evaluation.accuracy import AccuracyResult, EvaluatedResponse, evaluate_accuracy

__all__ = ["AccuracyResult", "EvaluatedResponse", "evaluate_accuracy"]
