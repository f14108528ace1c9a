"""The numbers of an evaluation, from how many responses to each problem are right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geoalign.lab.data.task import EvaluationSet
from geoalign.lab.models.rows import ResponseRow
from geoalign.statistics import (
    Interval,
    clustered_proportion,
    pass_at_k,
    powers_of_two,
    proportion_over_groups,
    wilson_interval,
)


@dataclass(frozen=True)
class ProblemCounts:
    """Of each problem [P], how many responses are right, and how many there are."""

    right: tuple[int, ...]
    total: tuple[int, ...]

    @property
    def ks(self) -> list[int]:
        """The k of pass@k: 1, 2, 4, ... up to the fewest responses to a problem."""
        return powers_of_two(min(self.total))

    def pass_at(self, k: int) -> list[float]:
        """[P] the unbiased pass@k of each problem."""
        return [pass_at_k(total, right, k) for total, right in zip(self.total, self.right, strict=True)]

    def accuracy(self) -> Interval:
        """The share of right responses with its 95% interval over problems (`proportion_over_groups`)."""
        interval, _ = proportion_over_groups(self.right, self.total)
        return interval

    def pass_interval(self, k: int) -> Interval:
        """Mean over problems of pass@k with Student's interval over problems, cut to [0, 1].

        Wilson's where all problems have the same value, and there is no spread to judge by.
        """
        values = np.array(self.pass_at(k))
        if values.min() == values.max():
            return wilson_interval(float(values[0]) * len(values), len(values))
        return clustered_proportion(values, np.ones(len(values)))


def counts_by_problem(rows: Sequence[ResponseRow]) -> ProblemCounts:
    """Right and all responses of each problem, in the order of its first row."""
    total = Counter(row.id for row in rows)
    right = Counter(row.id for row in rows if row.correct)
    return ProblemCounts(right=tuple(right[problem] for problem in total), total=tuple(total.values()))


def evaluation_values(
    evaluation_set: EvaluationSet, rows: Sequence[ResponseRow], gold: Sequence[float | None]
) -> dict[str, Any]:
    """The values of one line of a run's `evaluation.jsonl`.

    The accuracy, its interval over problems and pass@k are set only for rewards that mean right or wrong.

    Args:
        rows: every response to the set.
        gold: [rows] what each response is truly worth, None where that is unknown.
    """
    values: dict[str, Any] = {
        "accuracy": None,
        "accuracy_low": None,
        "accuracy_high": None,
        "correct": None,
        "count": len(rows),
        "reward": mean_of_known([row.reward for row in rows]),
        "gold_utility": mean_of_known(gold),
        "samples": evaluation_set.samples,
        "pass_at_k": None,
    }
    if evaluation_set.kind == "benchmark":
        counts = counts_by_problem(rows)
        interval = counts.accuracy()
        correct = sum(counts.right)
        values["accuracy"] = correct / len(rows)
        values["accuracy_low"] = interval.low
        values["accuracy_high"] = interval.high
        values["correct"] = correct
        values["pass_at_k"] = {str(k): math.fsum(counts.pass_at(k)) / len(counts.total) for k in counts.ks}
    return values


def mean_of_known(values: Sequence[float | None]) -> float | None:
    """The mean of the values that are neither None nor NaN; None without any."""
    known = [value for value in values if value is not None and not math.isnan(value)]
    return math.fsum(known) / len(known) if known else None
