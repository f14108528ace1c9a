"""Asking a second verifier about rows of a batch: identical responses once, and never so that a training stops."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from geoalign.errors import ConfigError, InputError, MissingExtraError, UnsupportedError
from geoalign.secrets import masked
from geoalign.text import quote
from geoalign.types import Rollouts, SecondRewards

_LOG = logging.getLogger(__name__)
# What only the user can put right, by another setting or another package: it stops a training.
_STOPPING = (ConfigError, MissingExtraError, UnsupportedError)
# The rows of a group that hold one response; the first of them is asked about.
Question = list[int]


@dataclass(frozen=True)
class Answers:
    """What came of asking.

    Attributes:
        rows: the rows that have a verdict, with those that hold the same response as one that was asked about.
        verdicts: the verdict on each.
        unanswered: how many questions have none.
    """

    rows: list[int]
    verdicts: list[float]
    unanswered: int


def responses_of(rollouts: Rollouts) -> list[tuple[int, int]]:
    """The response of each row: rows of a group with equal `response_keys` hold one; without keys each has its own."""
    groups = rollouts.groups.tolist()
    keys = range(len(groups)) if rollouts.response_keys is None else rollouts.response_keys.tolist()
    return list(zip(groups, keys, strict=True))


def questions_about(rows: Iterable[int], rollouts: Rollouts) -> list[Question]:
    """A question for each response that these rows hold, in the order of the rows."""
    responses = responses_of(rollouts)
    questions: dict[tuple[int, int], Question] = {}
    for row in rows:
        questions.setdefault(responses[row], []).append(row)
    return list(questions.values())


def ask(questions: Sequence[Question], second_rewards: SecondRewards) -> Answers:
    """Asks all questions in one call; a verdict of None or NaN is none.

    Raises:
        InputError: the second verifier returns another number of verdicts than there are questions.
    """
    given = second_rewards([question[0] for question in questions]) if questions else []
    if len(given) != len(questions):
        raise InputError(f"second_rewards: expected {len(questions)} verdicts, got {len(given)}")
    rows: list[int] = []
    verdicts: list[float] = []
    unanswered = 0
    for question, verdict in zip(questions, given, strict=True):
        if verdict is None or math.isnan(verdict):
            unanswered += 1
            continue
        rows += question
        verdicts += [float(verdict)] * len(question)
    return Answers(rows, verdicts, unanswered)


class PatientAsking:
    """Makes a second verifier one whose failures leave questions unanswered, and says why, the first time.

    A second verifier that raises, or hands back something else than a number or None for each row, does not stop the
    training: what it did not answer has no verdict. Errors about a setting or a missing package do stop it.
    """

    def __init__(self) -> None:
        self._has_warned = False

    def of(self, second_rewards: SecondRewards) -> SecondRewards:
        """The second verifier, which now answers every question, if only by None."""

        def answer(rows: Sequence[int]) -> list[float | None]:
            try:
                given = _as_list(second_rewards(rows))
            except _STOPPING:
                raise
            except Exception as error:
                self._warn(f"{type(error).__name__}: {error}")
                return [None for _ in rows]
            if len(given) != len(rows):
                self._warn(f"it returned {len(given)} verdicts on {len(rows)} rows")
                return [None for _ in rows]
            return [self._number(verdict) for verdict in given]

        return answer

    def _number(self, verdict: Any) -> float | None:
        """A verdict as a number; None of what is none, is not finite, or is the verifier's own None."""
        if verdict is None:
            return None
        try:
            if isinstance(verdict, (str, bytes)):
                raise TypeError("a text")
            number = float(verdict)
        except (TypeError, ValueError):
            self._warn(f"expected a number or None as a verdict, got {quote(verdict)}")
            return None
        if math.isinf(number):
            self._warn("expected a finite number as a verdict, got an infinite one")
        return number if math.isfinite(number) else None

    def _warn(self, why: str) -> None:
        if not self._has_warned:
            _LOG.warning(
                "the second verifier failed, and training goes on without its verdicts: %s "
                "(said once; the metric appeals_unanswered counts the questions without a verdict)",
                quote(masked(why)),
            )
        self._has_warned = True


def _as_list(given: Any) -> list[Any]:
    """What a second verifier returned, as a list; TypeError for what has no order of rows."""
    if isinstance(given, (str, bytes, Mapping, Set)):
        raise TypeError(f"expected a list of verdicts, got {type(given).__name__}")
    return list(given)
