"""Rewards from verified answers: 1 where the boxed answer equals the gold one, else 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from geoalign.boxed import boxed_answer
from geoalign.errors import InputError
from geoalign.lab.config.rewards import RewardConfig
from geoalign.lab.rewards.answers import quick_verdict, tidy, with_powers
from geoalign.lab.rewards.base import response_text
from geoalign.lab.rewards.workers import AnswerWorkers, Verdict

_MAX_DEPTH = 20
_REMEMBERED = 65536
_COUNTERS = {Verdict.CORRECT: "correct", Verdict.TIMEOUT: "timeouts", Verdict.ERROR: "errors"}


class VerifiedReward:
    """Scores responses against gold answers; a context manager that ends its processes.

    Of a response only the last complete `\\boxed{...}` counts, or the list of boxes that it ends (`boxed_answer`).
    Equal strings and integers are decided here; whatever else, by math-verify in processes of their own
    (`AnswerWorkers`). Definite verdicts are remembered.

    `counters` counts, since the start: responses scored, correct, without an answer (no_answer: no box, or an empty
    one), refused (longer than `max_answer_length`, or brackets nested deeper than 20: wrong unread), timeouts, errors
    (math-verify failed); and the comparisons that took a process (compared).

    Raises:
        MissingExtraError: math-verify is not installed.
    """

    __name__ = "verified_answer"
    binary = True

    def __init__(self, config: RewardConfig | None = None) -> None:
        self._config = config if config is not None else RewardConfig()
        self._workers = AnswerWorkers(count=self._config.workers, timeout=self._config.timeout)
        self._known: dict[tuple[str, str], Verdict] = {}
        self.counters = dict.fromkeys(
            ("scored", "correct", "no_answer", "refused", "timeouts", "errors", "compared"), 0
        )

    def score(
        self, responses: Sequence[str], answers: Sequence[str], *, prompts: Sequence[Any] | None = None
    ) -> list[float]:
        """1.0 or 0.0 for each response, against the gold answer of its row; `prompts` is ignored."""
        _check(responses, answers)
        pairs = [self._pair(response, gold) for response, gold in zip(responses, answers, strict=True)]
        verdicts = self._verdicts([pair for pair in pairs if isinstance(pair, tuple)])
        found = [pair if isinstance(pair, str) else verdicts[pair] for pair in pairs]
        for outcome in found:
            if (counter := outcome if isinstance(outcome, str) else _COUNTERS.get(outcome)) is not None:
                self.counters[counter] += 1
        self.counters["scored"] += len(found)
        return [float(outcome is Verdict.CORRECT) for outcome in found]

    def __call__(
        self, prompts: Sequence[Any], completions: Sequence[Any], *, answer: Sequence[str], **_: Any
    ) -> list[float]:
        """The same as a reward function of TRL, with the data set's column `answer`."""
        return self.score([response_text(completion) for completion in completions], answer)

    def close(self) -> None:
        """Ends the processes; scoring again starts new ones."""
        self._workers.close()

    def __enter__(self) -> VerifiedReward:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _pair(self, response: str, gold: str) -> tuple[str, str] | str:
        """(gold, answer) to compare, or the name of the counter that says why there is nothing to compare."""
        answer = with_powers(tidy(boxed_answer(response) or ""))
        if not answer:
            return "no_answer"
        inner = boxed_answer(gold)
        expected = with_powers(tidy(gold if inner is None else inner))
        longest = self._config.max_answer_length
        if answer == expected:
            return expected, answer
        if (
            max(len(answer), len(expected)) > longest
            or max(nesting_depth(answer), nesting_depth(expected)) > _MAX_DEPTH
        ):
            return "refused"
        return expected, answer

    def _verdicts(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Verdict]:
        verdicts: dict[tuple[str, str], Verdict] = {}
        for pair in pairs:
            if pair in self._known:
                verdicts[pair] = self._known[pair]
            elif (quick := quick_verdict(*pair)) is not None:
                verdicts[pair] = Verdict.CORRECT if quick else Verdict.WRONG
        compared = [pair for pair in dict.fromkeys(pairs) if pair not in verdicts]
        self.counters["compared"] += len(compared)
        verdicts |= zip(compared, self._workers.compare(compared), strict=True)
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._known |= {pair: verdicts[pair] for pair in compared if verdicts[pair] in (Verdict.CORRECT, Verdict.WRONG)}
        return verdicts


def _check(responses: Sequence[str], answers: Sequence[str]) -> None:
    if len(responses) != len(answers):
        raise InputError(f"answers: expected {len(responses)} as responses, got {len(answers)}")
    for row, (response, answer) in enumerate(zip(responses, answers, strict=True)):
        if not isinstance(response, str):
            raise InputError(f"responses: expected str, got {type(response).__name__} in row {row}")
        if not isinstance(answer, str) or not answer.strip():
            raise InputError(f"answers: expected a gold answer, got {answer!r} in row {row}")


def nesting_depth(text: str) -> int:
    """The largest number of brackets of any kind open at once in `text`."""
    depth = deepest = 0
    for character in text:
        if character in "({[":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")}]":
            depth -= 1
    return deepest
