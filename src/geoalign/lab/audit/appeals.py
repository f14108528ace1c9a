"""`--second-verifier`: it judges the most suspicious rows of each step, and its verdicts are labels from then on."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas

from geoalign.curators.appeals import Appeals, Hearing
from geoalign.curators.base import Curator
from geoalign.errors import ConfigError, InputError
from geoalign.lab.config.audit import AuditConfig
from geoalign.lab.rewards.second import MATH_VERIFY, second_verifier
from geoalign.settings.secrets import masked
from geoalign.shown import shown
from geoalign.types import Rollouts

_KEY = "--second-verifier"
# What it is told of a row besides `prompt`, where the dump says so.
_FIELDS = ("response", "answer", "final_answer", "reward", "id", "step")


class SecondOpinion:
    """A second verifier for all steps of a call, what it cost, and what it changed."""

    def __init__(self, name: str, budget: str, config: AuditConfig) -> None:
        self._judge = second_verifier(name, config.endpoint, key=_KEY, section="endpoint")
        self._name, self._budget, self._needs_gold = masked(name), budget, name == MATH_VERIFY
        self._number, self._share = _parsed(budget)
        self._counts: Counter[str] = Counter()
        self._seconds = 0.0

    def hear(self, frame: pandas.DataFrame, rollouts: Rollouts, curator: Curator) -> tuple[pandas.DataFrame, Hearing]:
        """The rollouts of a step with the verdicts in their column `label`, and what came of asking."""
        if self._needs_gold and frame["answer"].isna().all():
            raise ConfigError(f"{_KEY} {MATH_VERIFY}: expected gold answers (--field answer=NAME), got none")
        budget = self._number or max(1, int(self._share * len(frame)))
        values = sorted(set(frame["reward"].dropna().tolist()))
        low, high = values if len(values) == 2 else (0.0, 1.0)

        def ask(rows: Sequence[int]) -> list[float | None]:
            asked = frame.iloc[list(rows)]
            prompts = [messages or prompt for messages, prompt in zip(asked["messages"], asked["prompt"], strict=True)]
            told = asked[[*_FIELDS]].astype(object).where(asked[[*_FIELDS]].notna(), None)
            started = time.monotonic()
            found = self._judge(told.assign(prompt=prompts)[["prompt", *_FIELDS]].to_dict("records"))
            self._seconds += time.monotonic() - started
            if len(values) > 2 and any(isinstance(verdict, bool) for verdict in found):
                raise InputError(f"{_KEY}: expected binary rewards, or verdicts that are a `reward`, got `correct`")
            self._counts.update(questions=len(found))
            return [(high if verdict else low) if isinstance(verdict, bool) else verdict for verdict in found]

        hearing = Appeals(curator=curator, budget=budget).hear(replace(rollouts, second_rewards=ask))
        rows = hearing.asked.tolist()
        given, old = hearing.rollouts.rewards[hearing.asked], rollouts.rewards[hearing.asked]
        frame.loc[frame.index[rows], "label"] = given.tolist()
        self._counts.update(
            rows=len(rows),
            unanswered=hearing.unanswered,
            overturned=int(hearing.overturned.sum()),
            lowered=int((given < old).sum()),
            flagged_before=int(hearing.trial.anomalous.sum()),
        )
        known = replace(hearing.rollouts, second_rewards=None)
        return frame, replace(hearing, rollouts=known)

    def summary(self, flagged: int) -> dict[str, Any]:
        """`appeals` of `summary.json`."""
        return {
            "verifier": self._name, "budget": self._budget, **self._counts, "flagged_after": flagged,
            "seconds": round(self._seconds, 3),
        }  # fmt: skip


def _parsed(budget: str) -> tuple[int, float]:
    """The number of rows a step, or 0 and their share."""
    try:
        number = float(budget.removesuffix("%"))
    except ValueError:
        number = math.nan
    if budget.endswith("%") and 0 < number <= 100:
        return 0, number / 100
    if budget.isdecimal() and number >= 1:
        return int(budget), 0.0
    raise ConfigError(f"--budget: expected a number of rows, or a share such as 10%, got {shown(budget)}")
