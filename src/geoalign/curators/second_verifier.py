"""Asking a second verifier about rows of a batch: identical responses once, and never so that a training stops."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geoalign.curators.alarms import warn
from geoalign.curators.curator import tie_order
from geoalign.curators.verdict_values import SeenVerdicts
from geoalign.errors import ConfigError, InputError, MissingExtraError, UnsupportedError
from geoalign.secrets import masked
from geoalign.text import one_line
from geoalign.types import Rollouts, SecondRewards

_LOG = logging.getLogger(__name__)
# What only the user can put right, by another setting or another package: it stops a training.
_STOPPING = (ConfigError, MissingExtraError, UnsupportedError)
# Rewards are float32 numbers.
_LARGEST = 3e38
# The rows of a group that hold one response; the first of them is asked about.
Question = list[int]


@dataclass(frozen=True)
class Verdicts:
    """What came of asking.

    Attributes:
        rows: the rows that have a verdict, with those that hold the same response as one that was asked about.
        values: the verdict on each.
        missing: how many questions got none.
        unread: how many of these were answered by a truth value that no reward stands for.
    """

    rows: list[int]
    values: list[float]
    missing: int
    unread: int


def responses_of(rollouts: Rollouts) -> list[tuple[int, int]]:
    """The response of each row: rows of a group with equal `response_keys` hold one; without keys each has its own."""
    groups = rollouts.groups.tolist()
    keys = range(len(groups)) if rollouts.response_keys is None else rollouts.response_keys.tolist()
    return list(zip(groups, keys, strict=True))


def trusted_mask(rollouts: Rollouts) -> Bool[Tensor, " b"]:
    """[B] whether a row is trusted; none is where the batch does not say."""
    if rollouts.trusted is None:
        return torch.zeros_like(rollouts.rewards, dtype=torch.bool)
    return rollouts.trusted


def open_rows(rollouts: Rollouts) -> Bool[Tensor, " b"]:
    """[B] whether a row has a reward that may be wrong, as it is not trusted."""
    return ~(rollouts.rewards.isnan() | trusted_mask(rollouts))


def observed_rewards(rollouts: Rollouts) -> Float[Tensor, " b"]:
    """[B] the rewards of the verifier that is checked, on the CPU; NaN where a row is trusted."""
    return rollouts.rewards.masked_fill(trusted_mask(rollouts), torch.nan).cpu()


def rows_to_ask_about(rollouts: Rollouts) -> list[int]:
    """The rows with a reward that are not trusted, in an order that does not depend on the batch's (`tie_order`)."""
    may_ask = open_rows(rollouts).cpu()
    in_order = tie_order(rollouts)
    return in_order[may_ask[in_order]].tolist()


def questions_about(rows: Iterable[int], rollouts: Rollouts, *, among: Iterable[int]) -> list[Question]:
    """A question for each response that these rows hold, in the order of the rows.

    Args:
        among: the rows for which a verdict holds if they have the same response as the one that is asked about.
    """
    responses = responses_of(rollouts)
    questions: dict[tuple[int, int], Question] = {}
    for row in rows:
        questions.setdefault(responses[row], [row])
    for row in among:
        question = questions.get(responses[row])
        if question is not None and row != question[0]:
            question.append(row)
    return list(questions.values())


def ask(
    questions: Sequence[Question],
    rollouts: Rollouts,
    seen_verdicts: SeenVerdicts,
    observed: Float[Tensor, " b"],
) -> Verdicts:
    """Asks the batch's second verifier all questions in one call; a verdict of None or NaN is none.

    A number is the reward of the rows. A truth value says whether they are right, and gives the reward that says so
    (`VerdictValues.reward_of`).

    Args:
        seen_verdicts: tells what truth values stand for, and notes that there are some. Where it does not know, as
            among scores, a truth value is no verdict.
        observed: [B] the rewards before any verdict (`observed_rewards`).

    Raises:
        InputError: the second verifier returns anything but a list with a truth value, a number or None for each
            question.
    """
    assert rollouts.second_rewards is not None
    said = _verdicts_on(questions, rollouts.second_rewards)
    if any(isinstance(verdict, bool) for verdict in said):
        seen_verdicts.says_truths = True
    values = seen_verdicts.values(observed, rollouts.rewards[trusted_mask(rollouts)])
    rows: list[int] = []
    verdicts: list[float] = []
    missing = 0
    unread = 0
    for question, verdict in zip(questions, said, strict=True):
        if verdict is None:
            missing += 1
        elif not isinstance(verdict, bool):
            rows += question
            verdicts += [verdict] * len(question)
        elif values is None:
            unread += 1
        else:
            rows += question
            verdicts += [values.reward_of(verdict, float(rollouts.rewards[row])) for row in question]
    return Verdicts(rows=rows, values=verdicts, missing=missing + unread, unread=unread)


def _verdicts_on(questions: Sequence[Question], second_rewards: SecondRewards) -> list[bool | float | None]:
    """What the second verifier says on each question; raises InputError as `ask`."""
    if not questions:
        return []
    returned = second_rewards([question[0] for question in questions])
    try:
        given = _as_list(returned)
        verdicts = [_read(verdict) for verdict in given]
    except InputError as error:
        raise InputError(f"second_rewards: {error}") from error
    if len(verdicts) != len(questions):
        raise InputError(f"second_rewards: expected {len(questions)} verdicts, got {len(verdicts)}")
    return verdicts


class SecondVerifierGuard:
    """Makes a second verifier one that ends no training: what fails leaves its rows without a verdict.

    A warning says why, once as long as the reason stays the same.

    Args:
        name: of the second verifier, for warnings.
    """

    def __init__(self, name: str = "") -> None:
        self._title = f"second verifier {name}".rstrip()
        # Why the last call failed; None: it did not.
        self._failure: str | None = None
        self._warned_of_unread = False

    def of(self, second_rewards: SecondRewards) -> SecondRewards:
        """The second verifier, which now answers every question, if only by None.

        What it raises is a failure, and so is anything but a number or None for each row. Errors about a setting or a
        missing package are raised all the same.
        """

        def answer(rows: Sequence[int]) -> list[bool | float | None]:
            try:
                given = _as_list(second_rewards(rows))
            except _STOPPING:
                raise
            except Exception as error:
                return self.verdicts([], rows=len(rows), failure=f"{type(error).__name__}: {error}")
            return self.verdicts(given, rows=len(rows))

        return answer

    def warn_of_unread(self, unread: int) -> None:
        """Warns, once, that truth values say nothing beside these rewards (`Verdicts.unread`)."""
        if unread and not self._warned_of_unread:
            self._warned_of_unread = True
            warn(
                _LOG,
                "%s says true or false, and the rewards do not show which two values mean so: %d questions count as "
                "unanswered. Beside scores let it return rewards",
                self._title,
                unread,
            )

    def verdicts(self, given: Sequence[Any], *, rows: int, failure: str | None = None) -> list[bool | float | None]:
        """The verdict on each row, a truth value or its reward; None where there is none. Warns of a failure.

        Args:
            given: what the second verifier said of each row; where it is of another length, of none.
            failure: why it failed, if it did; it may have said something of some rows all the same.
        """
        if len(given) != rows:
            failure = failure or f"it returned {len(given)} verdicts on {rows} rows"
            given = [None] * rows
        verdicts: list[bool | float | None] = []
        for verdict in given:
            try:
                verdicts.append(_read(verdict))
            except InputError as error:
                verdicts.append(None)
                failure = failure or str(error)
        if failure is not None and failure != self._failure:
            warn(
                _LOG,
                "%s: %s; %d of %d rows stay as they are, and the training goes on",
                self._title,
                one_line(masked(failure)),
                verdicts.count(None),
                rows,
            )
        self._failure = failure
        return verdicts


def _read(verdict: Any) -> bool | float | None:
    """A verdict as a truth value or as a number, which is a reward; None for None and NaN.

    Raises:
        InputError: it is no number, or too large for a reward.
    """
    # A single number of NumPy or PyTorch, and a single truth value.
    verdict = verdict.tolist() if hasattr(verdict, "tolist") else verdict
    if verdict is None or isinstance(verdict, bool):
        return verdict
    try:
        # A text is none, though `float` reads some.
        number = None if isinstance(verdict, (str, bytes)) else float(verdict)
    except Exception:
        number = None
    if number is None:
        raise InputError(f"expected a number or None as a verdict, got {type(verdict).__name__}")
    if math.isnan(number):
        return None
    if abs(number) > _LARGEST:
        raise InputError(f"expected a verdict between {-_LARGEST:g} and {_LARGEST:g}, got {number:g}")
    return number


def _as_list(given: Any) -> list[Any]:
    """What a second verifier returned, as a list.

    Raises:
        InputError: it is none, as a text, or has no order of rows.
    """
    expected = f"expected a list of verdicts, got {type(given).__name__}"
    if isinstance(given, (str, bytes, Mapping, Set)):
        raise InputError(expected)
    try:
        verdicts = iter(given)
    except TypeError as error:
        raise InputError(expected) from error
    return list(verdicts)
