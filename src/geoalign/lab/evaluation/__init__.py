"""Evaluation: accuracy on problems with gold answers, response files, and the pairwise judge.

Names are imported when they are first used, so that judging loads no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "EvaluatedResponse": "geoalign.lab.evaluation.policy",
    "EvaluationResult": "geoalign.lab.evaluation.policy",
    "evaluate_policy": "geoalign.lab.evaluation.policy",
    "SavedResponse": "geoalign.lab.evaluation.responses",
    "read_responses": "geoalign.lab.evaluation.responses",
    "write_responses": "geoalign.lab.evaluation.responses",
}

__all__ = [
    "EvaluatedResponse",
    "EvaluationResult",
    "SavedResponse",
    "evaluate_policy",
    "read_responses",
    "write_responses",
]

if TYPE_CHECKING:
    from geoalign.lab.evaluation.policy import EvaluatedResponse, EvaluationResult, evaluate_policy
    from geoalign.lab.evaluation.responses import SavedResponse, read_responses, write_responses


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'geoalign.lab.evaluation' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
