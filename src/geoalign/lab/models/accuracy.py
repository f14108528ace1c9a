"""How many answers of a model are right: the numbers of one evaluation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

from geoalign.lab.models.answering import Answer
from geoalign.statistics import Interval, mean_pass_at_k, powers_of_two, proportion_over_groups

_Item = TypeVar("_Item")


def evaluation_values(
    answers: Sequence[Answer], samples: int, *, binary: bool, gold: Sequence[float | None]
) -> dict[str, Any]:
    """The values of one line of `evaluation.jsonl` from answers by problem, then by sample; only a `binary` reward
    has accuracy, its interval over problems, and pass@k. `gold` is what each answer is truly worth."""
    right = right_answers(answers, samples)
    interval, _ = accuracy_interval(right, samples)
    passed = {str(k): mean_pass_at_k(right, samples=samples, k=k) for k in powers_of_two(samples)}
    return {
        "accuracy": sum(right) / len(answers) if binary else None,
        "accuracy_low": interval.low if binary else None,
        "accuracy_high": interval.high if binary else None,
        "correct": sum(right) if binary else None,
        "count": len(answers),
        "reward": mean_of_known([scored.reward for scored in answers]),
        "gold_utility": mean_of_known(gold),
        "samples": samples,
        "pass_at_k": passed if binary else None,
    }


def right_answers(rows: Sequence[Any], samples: int) -> list[int]:
    """How many of the responses to each problem are right; `rows` go by problem, with `samples` to each."""
    return [sum(bool(row.correct) for row in group) for group in _by_problem(rows, samples)]


def accuracy_interval(right: Sequence[int], samples: int) -> tuple[Interval, Literal["wilson", "clustered"]]:
    """The share of right responses with the 95% interval over problems, and how it was made
    (`proportion_over_groups`)."""
    return proportion_over_groups(right, [samples] * len(right))


def _by_problem(rows: Sequence[_Item], samples: int) -> list[Sequence[_Item]]:
    return [rows[start : start + samples] for start in range(0, len(rows), samples)]


def mean_of_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return math.fsum(known) / len(known) if known else None
