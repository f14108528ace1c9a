"""Final answers: read out of responses, brought into one normal form, and told apart within a prompt."""

from __future__ import annotations

from geoalign.answers.classes import Equivalence, answers_by_class
from geoalign.answers.completions import boxed_answers, completion_text, final_answer
from geoalign.answers.forms import is_mathematical, normal_form

__all__ = [
    "Equivalence",
    "answers_by_class",
    "boxed_answers",
    "completion_text",
    "final_answer",
    "is_mathematical",
    "normal_form",
]
