"""`--second-verifier`: it judges the most informative rows of each step, and its verdicts are labels from then on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas

from geoalign.answers.verifiers import MATH_VERIFY, second_verifier
from geoalign.audit.settings import AuditConfig
from geoalign.curators.appeals import Appeals, Hearing
from geoalign.curators.curator import Curator
from geoalign.errors import ConfigError, InputError
from geoalign.secrets import masked
from geoalign.text import quote
from geoalign.types import Rollouts

_KEY = "--second-verifier"
# What it is told of a row, where the dump says so.
_FIELDS = ["prompt", "response", "answer", "final_answer", "reward", "id", "step"]


class SecondOpinion:
    """A second verifier for all steps of a call, what it cost, and what it changed."""

    def __init__(self, name: str, budget: str, config: AuditConfig) -> None:
        self._judge = second_verifier(name, config.endpoint, key=_KEY, section="endpoint")
        self._name, self._budget, self._needs_gold = masked(name), budget, name == MATH_VERIFY
        self._number, self._percent = _parsed(budget)
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0

    def hear(self, frame: pandas.DataFrame, rollouts: Rollouts, curator: Curator, values: Sequence[float]) -> Hearing:
        """What came of asking about a step's rollouts; the verdicts stand in their column `label`.

        `values` are the rewards of all steps, from the lowest: of two the higher is that of a right response.
        """
        if self._needs_gold and frame["answer"].isna().all():
            raise ConfigError(f"{_KEY} {MATH_VERIFY}: expected gold answers (--field answer=NAME), got none")
        low, high = values if len(values) == 2 else (min([0.0, *values]), 1.0)

        def ask(rows: Sequence[int]) -> list[float | None]:
            asked, started = frame.iloc[list(rows)], time.monotonic()
            if self._needs_gold:
                # Math-Verify judges all spellings of an answer alike.
                asked = asked.assign(final_answer=asked["compared_answer"])
            told = asked[_FIELDS].assign(prompt=asked["messages"].where(asked["messages"].notna(), asked["prompt"]))
            records: Any = told.astype(object).where(told.notna(), None).to_dict("records")
            found = self._judge(records)
            self._seconds += time.monotonic() - started
            if len(values) > 2 and any(isinstance(verdict, bool) for verdict in found):
                raise InputError(f"{_KEY}: expected binary rewards, or verdicts that are a `reward`, got `correct`")
            self._counts["questions"] += len(found)
            return [(high if verdict else low) if isinstance(verdict, bool) else verdict for verdict in found]

        budget = self._number or max(1, self._percent * len(frame) // 100)
        hearing = Appeals(curator=curator, budget=budget).hear(replace(rollouts, second_rewards=ask))
        given, old = hearing.rollouts.rewards[hearing.asked], rollouts.rewards[hearing.asked]
        frame.loc[frame.index[hearing.asked.numpy()], "label"] = given.tolist()
        self._counts.update(rows=len(given), unanswered=hearing.unanswered, overturned=int(hearing.overturned.sum()))
        self._counts.update(lowered=int((given < old).sum()), flagged_before=int(hearing.trial.anomalous.sum()))
        return hearing

    def summary(self, flagged: int) -> dict[str, Any]:
        """`appeals` of `summary.json`."""
        asked = {"verifier": self._name, "budget": self._budget, "questions": 0, **self._counts}
        return {**asked, "flagged_after": flagged, "seconds": round(self._seconds, 3)}


def _parsed(budget: str) -> tuple[int, int]:
    """The number of rows a step, or 0 and their percentage."""
    number = budget.removesuffix("%")
    if number.isascii() and number.isdecimal() and 0 < int(number) <= (100 if budget != number else 10**9):
        return (int(number), 0) if budget == number else (0, int(number))
    raise ConfigError(f"--budget: expected a number of rows, or a share such as 10%, got {quote(budget)}")
