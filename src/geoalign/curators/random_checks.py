"""Checks of rows that are drawn at random in every batch: the verifier's error rates in a training, and an alarm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Generator

from geoalign.checks.windows import WindowCounts, counted_checks, window_intervals
from geoalign.curators.alarms import raise_alarm
from geoalign.curators.choosers import shuffled
from geoalign.curators.saved_settings import check_state_keys
from geoalign.curators.second_verifier import open_rows, rows_to_ask_about
from geoalign.curators.verdict_values import SeenVerdicts
from geoalign.intervals import Interval
from geoalign.types import Rollouts

CHECKED_RATES = ("checked_false_positive_rate", "checked_false_negative_rate")
_TITLES = ("The verifier accepts more wrong responses", "The verifier refuses more right responses")


def draw_rows(rollouts: Rollouts, count: int, generator: Generator) -> list[int]:
    """Up to `count` rows, uniformly without replacement among those with a reward that are not trusted.

    The draw is over the rows as `rows_to_ask_about` orders them, so that their order in the batch changes nothing.
    """
    return shuffled(rows_to_ask_about(rollouts), generator)[:count]


class RandomChecks:
    """The checks of a training, window by window, and what they say of the verifier.

    Rows enter that were drawn at random, never ones that were chosen, and each counts once; they are those that the
    second verifier could judge. Where rewards are verdicts (`SeenVerdicts`), a row is accepted if its reward is above
    the middle of both values, and right if the second verdict is, so that a bonus beside them decides nothing. Other
    rewards have no such rates, and are not counted. Nor are checks from before both values were seen.

    An alarm is raised where the interval of a closed window lies above that of the first window which has rows of the
    class. All intervals of a run hold together in 95% of runs (`geoalign.checks.windows`), so that at most one run in
    twenty has an alarm though no rate has risen.

    Args:
        window: how many checks close a window.

    Attributes:
        seen_verdicts: the values of the verdicts.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self.seen_verdicts = SeenVerdicts()
        self._open = WindowCounts()
        self._closed: list[WindowCounts] = []
        # The rates that are higher than at the start, by name.
        self._raised: list[str] = []

    def add(self, rollouts: Rollouts, rows: Sequence[int], verdicts: Sequence[float]) -> None:
        """Counts the checks of a batch, and raises an alarm where they close a window that asks for one.

        Args:
            rollouts: the batch with the rewards of the verifier that is checked.
            rows: rows that were drawn by `draw_rows`, and have a verdict.
            verdicts: what the second verifier said of them.
        """
        said = torch.tensor(verdicts, dtype=torch.float64)
        values = self.seen_verdicts.learn(rollouts.rewards[open_rows(rollouts)], said)
        if values is None:
            return
        accepted = values.accepts(rollouts.rewards[list(rows)])
        self._open += counted_checks(accepted.tolist(), values.accepts(said).tolist())
        if self._open.checks >= self._window:
            self._closed.append(self._open)
            self._open = WindowCounts()
            self._compare_with_first_window()

    def metrics(self, checks: int) -> dict[str, float]:
        """What is logged: the checks of this batch, the windows closed so far, and both rates of the last of them.

        `<rate>_low` and `<rate>_high` are the ends of an interval. Rates are NaN before a window is closed. `alarms`
        counts the rates that are higher than at the start.

        Args:
            checks: how many rows of this batch were drawn and have a verdict.
        """
        number = len(self._closed)
        intervals = [Interval(math.nan, math.nan, math.nan) for _ in CHECKED_RATES]
        if number:
            intervals = list(window_intervals(self._closed[-1], number))
        metrics = {"checks": float(checks), "check_windows": float(number), "alarms": float(len(self._raised))}
        for name, interval in zip(CHECKED_RATES, intervals, strict=True):
            metrics |= interval.as_metrics(name)
        return metrics

    def _compare_with_first_window(self) -> None:
        """Raises an alarm for each rate that is higher than at the start, once until its estimate is back there.

        A window without rows of the class says nothing: an alarm that was raised stays.
        """
        number = len(self._closed)
        now = window_intervals(self._closed[-1], number)
        for place, name in enumerate(CHECKED_RATES):
            first_number = self._first_with_rows(place)
            if first_number is None:
                continue
            first = window_intervals(self._closed[first_number - 1], first_number)[place]
            latest = now[place]
            has_risen = latest.low > first.high
            if has_risen and name not in self._raised:
                self._raised.append(name)
                raise_alarm(
                    _TITLES[place],
                    f"{name} is {_words(latest)} in window {number} of the random checks, above {_words(first)} "
                    f"in window {first_number}: {_TITLES[place].lower()} than at the start",
                )
            elif name in self._raised and latest.estimate <= first.high:
                self._raised.remove(name)

    def _first_with_rows(self, place: int) -> int | None:
        """The number of the first window with rows of the class of this rate; None: there is none."""
        for number, counts in enumerate(self._closed, 1):
            rows_of_class = (counts.wrong, counts.right)[place]
            if rows_of_class:
                return number
        return None

    def state_dict(self) -> dict[str, Any]:
        """What another process needs to go on."""
        return {
            "verdicts": self.seen_verdicts.state_dict(),
            "open": vars(self._open).copy(),
            "closed": [vars(counts).copy() for counts in self._closed],
            "raised": list(self._raised),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` returned; ConfigError for the keys of another version."""
        check_state_keys(state, list(self.state_dict()), by="RandomChecks")
        self.seen_verdicts.load_state_dict(state["verdicts"])
        self._open = WindowCounts(**state["open"])
        self._closed = [WindowCounts(**counts) for counts in state["closed"]]
        self._raised = list(state["raised"])


def _words(rate: Interval) -> str:
    return f"{rate.estimate:.3g} ({rate.low:.3g} to {rate.high:.3g})"
