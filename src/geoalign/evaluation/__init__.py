"""Evaluation: accuracy on problems with gold answers."""

from geoalign.evaluation.policy import EvaluatedResponse, EvaluationResult, evaluate_policy

__all__ = ["EvaluatedResponse", "EvaluationResult", "evaluate_policy"]
