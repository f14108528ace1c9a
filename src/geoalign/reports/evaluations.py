"""One line of evaluation.jsonl, checked: in run folders and in the compact results of a comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.reports.run import Evaluation


def parse_evaluation(line: Mapping[str, Any], where: str) -> Evaluation:
    """The line as an `Evaluation`; keys that older versions did not write may be missing.

    Raises:
        RunFolderError: a key is missing or of another type, or `correct` does not fit `count`; `where` is named.
    """
    try:
        correct = None if line["correct"] is None else int(line["correct"])
        passed = line.get("pass_at_k")
        row = Evaluation(
            step=int(line["step"]),
            stage=str(line["stage"]),
            set=str(line["set"]),
            accuracy=_number(line["accuracy"]),
            correct=correct,
            count=int(line["count"]),
            reward=_number(line.get("reward")),
            gold_utility=_number(line.get("gold_utility")),
            samples=None if line.get("samples") is None else int(line["samples"]),
            pass_at_k={} if passed is None else {int(k): _number(value) for k, value in sorted(passed.items(), key=_k)},
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RunFolderError(
            f"evaluation: expected step, stage, set, accuracy, correct and count, got {dict(line)} in {where}"
        ) from error
    if row.correct is None and not math.isnan(row.accuracy):
        raise RunFolderError(f"correct: expected a number where there is an accuracy, got null in {where}")
    if row.correct is not None and not 0 <= row.correct <= row.count:
        raise RunFolderError(f"correct: expected a number in 0..{row.count} (count), got {row.correct} in {where}")
    return row


def _k(item: tuple[Any, Any]) -> int:
    return int(item[0])


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
