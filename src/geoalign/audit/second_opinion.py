"""`--second-verifier`: it judges the most informative rows of each step, and its verdicts are labels from then on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas

from geoalign.answers.verifiers import MATH_VERIFY, Rows, second_verifier
from geoalign.audit.answers import told_golds
from geoalign.audit.settings import AuditConfig
from geoalign.audit.two_verdicts import verdict_values, why_no_verdicts
from geoalign.curators.appeals import Appeals, Hearing
from geoalign.curators.curator import Curator
from geoalign.errors import ConfigError, InputError
from geoalign.secrets import masked
from geoalign.text import quote
from geoalign.types import Rollouts

_KEY = "--second-verifier"
# What it is told of a row, where the dump says so.
_FIELDS = ["prompt", "response", "answer", "final_answer", "reward", "id", "step"]
_MOST_ROWS = 10**9
# The share of each step's rows that it checks where nothing else is asked.
_BUDGET = "10%"


class SecondOpinion:
    """A second verifier for all steps of a call, what it cost, and what it changed."""

    def __init__(self, name: str, budget: str | None, config: AuditConfig) -> None:
        """Raises ConfigError for a verifier or a budget that cannot be.

        Args:
            budget: how many of a step's rows it checks; None: a tenth.
        """
        self._judge = second_verifier(name, config.endpoint, key=_KEY, section="endpoint")
        self._name = masked(name)
        self._needs_gold = name == MATH_VERIFY
        self._budget = _BUDGET if budget is None else budget
        _budgeted_rows(self._budget, of=1)
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0

    def hear(self, rows: pandas.DataFrame, rollouts: Rollouts, curator: Curator, values: Sequence[float]) -> Hearing:
        """Asks about the step's most informative rows; the verdicts stand in the rows' column `label` afterwards.

        Args:
            values: the rewards of all steps, from the lowest: of two the higher is that of a right response.
        """
        if self._needs_gold and rows["answer"].isna().all():
            raise ConfigError(f"{_KEY} {MATH_VERIFY}: expected gold answers (--field answer=NAME), got none")

        def ask(asked: Sequence[int]) -> list[float | None]:
            return self._ask(rows.iloc[list(asked)], values)

        budget = _budgeted_rows(self._budget, of=len(rows))
        appeals = Appeals(curator=curator, budget=budget, choose="informative", random_share=0.0)
        hearing = appeals.hear(replace(rollouts, second_rewards=ask))
        given = hearing.rollouts.rewards[hearing.judged_rows]
        before = rollouts.rewards[hearing.judged_rows]
        rows.loc[rows.index[hearing.judged_rows.numpy()], "label"] = given.tolist()
        self._counts.update(
            rows=len(given),
            unanswered=hearing.unjudged,
            overturned=int(hearing.overturned.sum()),
            lowered=int((hearing.overturned & (given < before)).sum()),
            flagged_before=int(hearing.trial.anomalous.sum()),
        )
        return hearing

    def _ask(self, rows: pandas.DataFrame, values: Sequence[float]) -> list[float | None]:
        """The second verifier's reward for each row, None where it has none."""
        if self._needs_gold:
            # Math-Verify judges all spellings of an answer alike.
            rows = rows.assign(final_answer=rows["compared_answer"])
        records = asked_rows(rows)
        started = time.monotonic()
        verdicts = self._judge(records)
        self._seconds += time.monotonic() - started
        self._counts["questions"] += len(verdicts)
        if not any(isinstance(verdict, bool) for verdict in verdicts):
            return verdicts
        # Of two rewards any two will do: the user says that they are verdicts.
        known = tuple(values) if len(values) == 2 else verdict_values(values)
        if known is None:
            raise InputError(
                f"{_KEY}: expected verdicts that are rewards, got true or false. {why_no_verdicts(values)}"
            )
        wrong, right = known
        rewards: dict[Any, float] = {True: right, False: wrong}
        return [rewards[verdict] if isinstance(verdict, bool) else verdict for verdict in verdicts]

    def summary(self, flagged: int) -> dict[str, Any]:
        """`appeals` of `summary.json`.

        Args:
            flagged: how many rewards are flagged after its verdicts.
        """
        return {
            "verifier": self._name,
            "budget": self._budget,
            "questions": 0,
            **self._counts,
            "flagged_after": flagged,
            "seconds": round(self._seconds, 3),
        }


def asked_rows(rows: pandas.DataFrame) -> Rows:
    """What a verifier is told of each row; what the file does not say is None, and chat messages are the prompt."""
    prompts = rows["messages"].where(rows["messages"].notna(), rows["prompt"])
    questions = rows[_FIELDS].assign(prompt=prompts, answer=told_golds(rows))
    records: Any = questions.astype(object).where(questions.notna(), None).to_dict("records")
    return list(records)


def _budgeted_rows(budget: str, *, of: int) -> int:
    """How many of a step's rows a budget allows: its number, or its percentage of them and at least one.

    Raises:
        ConfigError: neither a positive number nor a percentage up to 100.
    """
    number = budget.removesuffix("%")
    is_share = budget != number
    if number.isascii() and number.isdecimal() and 0 < int(number) <= (100 if is_share else _MOST_ROWS):
        return max(1, int(number) * of // 100) if is_share else int(number)
    raise ConfigError(f"--budget: expected a number of rows, or a share such as 10%, got {quote(budget)}")
