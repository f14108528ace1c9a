"""A second verifier in a training: it is asked about the rows that a curator chooses, and never ends the training.

A call that raises, takes too long or returns something else than a verdict a row leaves its rows unanswered. Mistakes
in the settings are errors at the start.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any

from geoalign.adapters.settings import GOLD_ANSWERS, EngineSettings
from geoalign.answers.boxed import boxed_answer
from geoalign.answers.function import RewardFunction
from geoalign.answers.verifiers import (
    NamedVerifier,
    Rows,
    UnfinishedError,
    Verdict,
    function_verifier,
    named_verifier,
)
from geoalign.curators.second_verifier import SecondVerifierGuard
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError
from geoalign.settings.locations import dotted
from geoalign.types import SecondRewards

# Seconds after its time limit within which a verifier that ends by itself hands over what it has.
_GRACE = 1.0


@dataclass(frozen=True)
class GoldPlaces:
    """Where rows hold the gold answer.

    Attributes:
        names: the entries of a row, of which the first that is there counts; `a.b` is the entry b of the dict a.
        setting: what to set where they are elsewhere, for messages.
    """

    names: Sequence[str]
    setting: str

    def of(self, row: Mapping[str, Any]) -> Any:
        """The gold answer of a row; None where it has none."""
        values = [_entry(row, name) for name in self.names]
        known = [value for value in values if value is not None and value is not _MISSING]
        return known[0] if known else None

    def has_place(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has one of these entries, be it None."""
        return any(_entry(row, name) is not _MISSING for name in self.names)


_MISSING = object()


def _entry(row: Mapping[str, Any], name: str) -> Any:
    """The entry of that dotted name; `_MISSING` where there is none."""
    value: Any = row
    for part in name.split("."):
        value = value.get(part, _MISSING) if isinstance(value, Mapping) else _MISSING
    return value


class SecondVerifier:
    """A verifier that gives up after `seconds`, and whose failures are rows without a verdict and a warning.

    While a call that was given up has not ended, nothing is asked: one thread at most is left behind.
    """

    def __init__(self, verifier: NamedVerifier, *, seconds: float, gold: GoldPlaces) -> None:
        self._verifier = verifier
        self._seconds = seconds
        self._gold = gold
        self._thread: threading.Thread | None = None
        self._guard = SecondVerifierGuard(verifier.name)

    def field(self, rows_of: Callable[[Sequence[int]], Rows]) -> SecondRewards:
        """The field `second_rewards` of a batch; `rows_of` makes the rows of these numbers, each with `prompt` and
        `response` and what else the engine knows of it."""
        return lambda asked: self.verdicts(rows_of(asked))

    def verdicts(self, rows: Rows) -> list[Verdict]:
        """The verdict on each row, whether it is right or its reward; None where there is none."""
        questions = [self._question(row) for row in rows]
        verdicts, failure = self._verdicts(questions)
        return self._guard.verdicts(verdicts, rows=len(rows), failure=failure)

    def check_gold(self, dataset: Any) -> None:
        """Raises ConfigError where the verifier needs gold answers, and the rows of a data set (dicts) have none.

        A stream, and a data set whose rows are something else, cannot be looked at.
        """
        if not (self._verifier.needs_gold and isinstance(dataset, Sized) and len(dataset)):
            return
        row = dataset[0]  # type: ignore[index]
        if isinstance(row, Mapping) and not self._gold.has_place(row):
            raise ConfigError(self._no_gold())

    def _no_gold(self) -> str:
        names = " or ".join(self._gold.names)
        return f"{self._verifier.name} needs gold answers: expected one in {names}, got none; set {self._gold.setting}"

    def _question(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The row as a verifier reads it: `answer` is the gold answer, a list where several are right."""
        gold = self._gold.of(row)
        if self._verifier.kind == "function":
            return {**row, "answer": gold}
        golds = _gold_texts(gold)
        if not self._verifier.needs_gold:
            return {**row, "answer": _one_or_several(golds)}
        # Other columns might be taken for what the response answers.
        answer = _one_or_several([_answer_of_solution(text) for text in golds])
        return {"prompt": row["prompt"], "response": row["response"], "answer": answer}

    def _verdicts(self, rows: Rows) -> tuple[list[Verdict], str | None]:
        """The verdicts that came in time, none where the call failed as a whole, and why others did not come."""
        if self._verifier.needs_gold and all(row["answer"] is None for row in rows):
            return [], self._no_gold()
        if self._thread is not None and self._thread.is_alive():
            return [], "an earlier call has not ended"
        # Also for one that ends by itself: the engine may run an event loop in this thread.
        outcomes: queue.Queue[list[Verdict] | BaseException] = queue.Queue()
        self._thread = threading.Thread(target=lambda: outcomes.put(self._outcome(rows)), daemon=True)
        self._thread.start()
        try:
            outcome = outcomes.get(timeout=self._seconds + _GRACE)
        except queue.Empty:
            outcome = TimeoutError()
        if isinstance(outcome, TimeoutError) and not str(outcome):
            return [], f"no verdicts within {self._seconds:g} s"
        if isinstance(outcome, UnfinishedError):
            return outcome.verdicts, str(outcome)
        if isinstance(outcome, BaseException):
            return [], f"{type(outcome).__name__}: {outcome}"
        return outcome, None

    def _outcome(self, rows: Rows) -> list[Verdict] | BaseException:
        try:
            return self._verifier.judge(rows, self._seconds)
        # In this thread an exit of a user's function ends nothing but its call.
        except BaseException as error:
            return error


def _gold_texts(gold: Any) -> list[str]:
    """The gold answers as texts: of a list or an array each entry is one."""
    gold = gold.tolist() if hasattr(gold, "tolist") else gold
    golds = gold if isinstance(gold, (list, tuple)) else [gold]
    return [str(each) for each in golds if each is not None]


def _one_or_several(golds: list[str]) -> str | list[str] | None:
    """The only gold answer, a list of several, or None without any."""
    if len(golds) > 1:
        return golds
    return golds[0] if golds else None


def _answer_of_solution(text: str) -> str:
    """What stands in the box of a whole solution, or behind GSM8K's mark; else the text, which is the answer itself."""
    return boxed_answer(text) or text.rpartition("####")[2].strip()


def verifier_of_settings(
    settings: EngineSettings, session: CurationSession, *, gold: Sequence[str], path: str = ""
) -> SecondVerifier | None:
    """The second verifier that the settings of an engine name; None where they name none.

    Args:
        session: of the curator that is to ask.
        gold: the entries of the engine's rows that may hold the gold answer, as in `GoldPlaces`.
        path: the dotted key of the section of settings, for messages.

    Raises:
        ConfigError: there is no such verifier, or the curator asks none.
        MissingExtraError: a package that it needs is not installed.
    """
    if settings.second_verifier is None:
        refuse_endpoint(settings.second_verifier_endpoint, key=dotted(path, "second_verifier"))
        return None
    own = settings.rollout_fields.get(GOLD_ANSWERS)
    return make_second_verifier(
        settings.second_verifier,
        session,
        endpoint=settings.second_verifier_endpoint,
        seconds=settings.second_verifier_seconds,
        gold=GoldPlaces(gold if own is None else (own,), dotted(path, f"rollout_fields.{GOLD_ANSWERS}")),
        path=path,
    )


def refuse_endpoint(endpoint: Mapping[str, Any], *, key: str, beside: str = "no second verifier") -> None:
    """Raises ConfigError for settings of an endpoint that nothing asks."""
    if endpoint:
        given = ", ".join(str(name) for name in endpoint)
        raise ConfigError(f"{key}_endpoint: expected the address of a second verifier, got {given} beside {beside}")


def make_second_verifier(
    verifier: str | RewardFunction,
    session: CurationSession,
    *,
    endpoint: Mapping[str, Any],
    seconds: float,
    gold: GoldPlaces,
    path: str = "",
) -> SecondVerifier:
    """As `verifier_of_settings`, of the settings one by one; `verifier` is a name, or a function in TRL's form."""
    key = dotted(path, "second_verifier")
    if "second_rewards" not in session.curator.reads:
        raise ConfigError(f"{key}: expected a curator that asks a second verifier, such as appeals, got {session.name}")
    if not seconds > 0:
        raise ConfigError(f"{key}_seconds: expected a positive number, got {seconds}")
    if isinstance(verifier, str):
        found = named_verifier(verifier, endpoint, key=key, section=f"{key}_endpoint")
    elif callable(verifier):
        found = function_verifier(verifier)
    else:
        raise ConfigError(f"{key}: expected a name or a function, got {type(verifier).__name__}")
    if found.kind != "endpoint":
        refuse_endpoint(endpoint, key=key, beside=f"{found.name}, which is no address")
    return SecondVerifier(found, seconds=seconds, gold=gold)
