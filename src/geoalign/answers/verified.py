"""Rewards from verified answers: 1 where the boxed answer equals the gold one, else 0."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from geoalign.answers.boxed import boxed_answer
from geoalign.answers.equality import comparable, equal_at_sight, equal_by_form, readable
from geoalign.answers.workers import AnswerWorkers
from geoalign.errors import InputError

MOST_CHARACTERS = 1000
_MAX_DEPTH = 20


class VerifiedReward:
    """Scores responses against gold answers; a context manager that ends its processes.

    Answers whose text tells are compared here; whatever else, by math-verify in processes of their own. `counters`
    counts, since the start: responses scored, correct, without an answer (no_answer), refused (too long or too deep:
    wrong unread), timeouts, errors (math-verify failed), and the comparisons that took a process (compared).

    Args:
        timeout: seconds for one answer; then it counts as wrong and as a time-out.
        workers: processes that verify answers, started when first needed.
    """

    __name__ = "verified_answer"
    binary = True

    def __init__(self, *, timeout: float = 5.0, workers: int = 2) -> None:
        self.workers = AnswerWorkers(count=workers, timeout=timeout)
        self.counters = dict.fromkeys(
            ("scored", "correct", "no_answer", "refused", "timeouts", "errors", "compared"), 0
        )

    def score(
        self, responses: Sequence[str], answers: Sequence[str], *, prompts: Sequence[Any] | None = None
    ) -> list[float]:
        """1.0 or 0.0 for each response, against the gold answer of its row; `prompts` is ignored."""
        return [float(outcome == "correct") for outcome in self.outcomes(responses, answers)]

    def outcomes(self, responses: Sequence[str], answers: Sequence[str]) -> list[str]:
        """`correct` or `wrong`; or why there is no such verdict, by the name of its counter."""
        pairs = []
        for row, (response, gold) in enumerate(zip(responses, answers, strict=True)):
            if not gold.strip():
                raise InputError(f"answers: expected a gold answer, got {gold!r} in row {row}")
            pairs.append((readable(boxed_answer(gold) or gold), readable(boxed_answer(response) or "")))
        found = {pair: outcome_by_text(*pair) for pair in dict.fromkeys(pairs)}
        undecided = [pair for pair, outcome in found.items() if outcome is None]
        asked_before = self.workers.pairs_asked
        said = self.workers.compare([comparable(*pair) for pair in undecided])
        by_math_verify = dict(zip(undecided, said, strict=True))
        outcomes = [found[pair] or by_math_verify[pair] for pair in pairs]
        for name in self.counters:
            self.counters[name] += outcomes.count(name)
        self.counters["scored"] += len(outcomes)
        self.counters["compared"] += self.workers.pairs_asked - asked_before
        return outcomes

    def close(self) -> None:
        """Ends the processes; scoring again starts new ones."""
        self.workers.close()

    def __enter__(self) -> VerifiedReward:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def outcome_by_text(gold: str, answer: str) -> str | None:
    """The outcome for two readable answers that needs no process, by the name of its counter; None where one is
    needed."""
    if not answer:
        return "no_answer"
    equal = equal_at_sight(gold, answer)
    if equal is None:
        too_long = max(len(answer), len(gold)) > MOST_CHARACTERS
        if too_long or max(nesting_depth(answer), nesting_depth(gold)) > _MAX_DEPTH:
            return "refused"
        equal = equal_by_form(gold, answer)
    if equal is None:
        return None
    return "correct" if equal else "wrong"


def nesting_depth(text: str) -> int:
    """The largest number of brackets of any kind open at once in `text`."""
    steps = ((sign in "({[") - (sign in ")}]") for sign in text)
    return max(accumulate(steps, initial=0))
