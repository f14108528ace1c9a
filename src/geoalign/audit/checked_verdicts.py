"""What checked rows say of the verifier, and whether they deny what its proved rates rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas

from geoalign.checks.rates import CheckedRates
from geoalign.files.json_files import number_or_none

# What a row was found to be: right, wrong, or not known.
Truth = bool | None


@dataclass(frozen=True)
class CheckedVerdicts:
    """What the checks say of the verifier.

    Attributes:
        rates: both error rates.
        contradicted_prompts: on how many prompts equal answers are both right and wrong, or two right that exclude each
            other.
    """

    rates: CheckedRates
    contradicted_prompts: int


def contradicted_prompts(used: pandas.DataFrame, right: Sequence[Truth]) -> int:
    """On how many prompts the labels deny that equal answers are equally right and at most one answer is right.

    Args:
        used: the checked rows, with `group`, `compared_answer` and `exclusive` (whether at most one answer to the
            prompt is right).
        right: what was found of each.
    """
    found: dict[int, dict[str, set[bool]]] = {}
    for group, answer, truth in zip(used["group"], used["compared_answer"], right, strict=True):
        if truth is not None and isinstance(answer, str):
            found.setdefault(group, {}).setdefault(answer, set()).add(truth)
    exclusive = set(used["group"][used["exclusive"]])
    prompts = 0
    for group, truths_of_answers in found.items():
        are_right = [truths for truths in truths_of_answers.values() if True in truths]
        both_ways = any(len(truths) > 1 for truths in truths_of_answers.values())
        prompts += both_ways or (group in exclusive and len(are_right) > 1)
    return prompts


def checks_in_summary(checks: CheckedVerdicts | None) -> Mapping[str, Any] | None:
    """`verifier.checks` of `summary.json`: both rates by the checks alone."""
    if checks is None:
        return None
    found: dict[str, Any] = {"contradicted_prompts": checks.contradicted_prompts}
    for name, rate in vars(checks.rates).items():
        found[name] = {**vars(rate), "estimate": number_or_none(rate.estimate)}
    return found
