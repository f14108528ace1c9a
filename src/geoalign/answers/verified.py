"""Rewards from verified answers: 1 where the boxed answer equals the gold one, else 0."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from geoalign.answers.boxed import boxed_answer
from geoalign.answers.verdict_forms import comparable, quick_verdict, readable, verdict_by_form
from geoalign.answers.workers import AnswerWorkers
from geoalign.errors import InputError

_MAX_DEPTH = 20
MOST_CHARACTERS = 1000
_REMEMBERED = 65536


class VerifiedReward:
    """Scores responses against gold answers; a context manager that ends its processes.

    Equal strings and integers are decided here, as are bases, letters and units; whatever else, by math-verify in
    processes of their own. `counters` counts, since the start: responses scored, correct, without an answer
    (no_answer), refused (too long or too deep: wrong unread), timeouts, errors (math-verify failed), and the
    comparisons that took a process (compared).

    Args:
        timeout: seconds for one answer; then it counts as wrong and as a time-out.
        workers: processes that verify answers, started when first needed.
    """

    __name__ = "verified_answer"
    binary = True

    def __init__(self, *, timeout: float = 5.0, workers: int = 2) -> None:
        self._workers = AnswerWorkers(count=workers, timeout=timeout)
        self._known: dict[tuple[str, str], str] = {}
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
        for row, answer in enumerate(answers):
            if not answer.strip():
                raise InputError(f"answers: expected a gold answer, got {answer!r} in row {row}")
        golds, given = ([boxed_answer(text) for text in texts] for texts in (answers, responses))
        pairs = [
            (readable(inner or gold), readable(answer or ""))
            for inner, gold, answer in zip(golds, answers, given, strict=True)
        ]
        found = {pair: self._known.get(pair) or self._at_once(*pair) for pair in dict.fromkeys(pairs)}
        compared = [pair for pair, outcome in found.items() if outcome is None]
        said = self._workers.compare([comparable(*pair) for pair in compared])
        new = dict(zip(compared, said, strict=True))
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._known |= {pair: outcome for pair, outcome in new.items() if outcome in ("correct", "wrong")}
        outcomes = [new.get(pair) or found[pair] or "" for pair in pairs]
        for name in self.counters:
            self.counters[name] += outcomes.count(name)
        self.counters["scored"] += len(outcomes)
        self.counters["compared"] += len(compared)
        return outcomes

    @property
    def workers(self) -> AnswerWorkers:
        """The processes that compare, for whoever else has answers to compare."""
        return self._workers

    def close(self) -> None:
        """Ends the processes; scoring again starts new ones."""
        self._workers.close()

    def __enter__(self) -> VerifiedReward:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _at_once(self, gold: str, answer: str) -> str | None:
        """The outcome that needs no process, by the name of its counter; None where one is needed."""
        if not answer:
            return "no_answer"
        equal = quick_verdict(gold, answer)
        if equal is not None:
            return "correct" if equal else "wrong"
        too_long = max(len(answer), len(gold)) > MOST_CHARACTERS
        if too_long or max(nesting_depth(answer), nesting_depth(gold)) > _MAX_DEPTH:
            return "refused"
        equal = verdict_by_form(gold, answer)
        return None if equal is None else "correct" if equal else "wrong"


def nesting_depth(text: str) -> int:
    """The largest number of brackets of any kind open at once in `text`."""
    return max(accumulate(((sign in "({[") - (sign in ")}]") for sign in text), initial=0))
