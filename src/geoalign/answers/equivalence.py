"""Which answers of one prompt are equal, where their text does not tell: by math-verify, in guarded processes."""

from __future__ import annotations

import importlib.util
import time
from collections import Counter
from collections.abc import Sequence

from geoalign.answers.equality import comparable, readable
from geoalign.answers.verified import outcome_by_text
from geoalign.answers.workers import AnswerWorkers

# Seconds that math-verify may take for one file. A number of pairs would be no limit: one pair takes
# milliseconds and another one its whole time limit.
MOST_SECONDS = 300.0
_AT_A_TIME = 16
_REMEMBERED = 65536
_SECONDS = 2.0

# Why a pair stays undecided.
NOT_INSTALLED = "not_installed"
OUT_OF_TIME = "out_of_time"
TIMED_OUT = "timed_out"
FAILED = "failed"
TOO_LONG = "too_long"

_Pair = tuple[str, str]


def math_verify_is_installed() -> bool:
    return importlib.util.find_spec("math_verify") is not None


class EqualAnswers:
    """The `Equivalence` of `answers_by_class`: two answers are one if math-verify calls each equal to the other.

    Math-verify may take `most_seconds` for a batch or file, which begins with `renew`; a first one begins at once. An
    answer on which it ran out of time is not asked about again in that batch or file. Where math-verify is not
    installed, texts alone decide.

    Attributes:
        counters: pairs since the start on which no text decides: compared, equal among these, and undecided.
        undecided_because: by reason how many pairs stayed undecided.
    """

    def __init__(self, workers: AnswerWorkers | None = None, *, most_seconds: float = MOST_SECONDS) -> None:
        if workers is None and math_verify_is_installed():
            workers = AnswerWorkers(count=2, timeout=_SECONDS)
        self._workers = workers
        self._most_seconds = most_seconds
        self._known: dict[_Pair, bool] = {}
        self.counters = dict.fromkeys(("compared", "equal", "undecided"), 0)
        self.undecided_because: Counter[str] = Counter()
        self.renew()

    def renew(self) -> None:
        """Begins another batch or file: the time that was spent, and answers that took too long, are forgotten."""
        self._seconds = 0.0
        self._slow: set[str] = set()

    def equal(self, pairs: Sequence[_Pair]) -> list[bool | None]:
        """For each pair whether it is one answer; None where that was not found out."""
        verdicts: dict[_Pair, bool] = {}
        asked = []
        too_long = []
        for pair in dict.fromkeys(pairs):
            outcome = outcome_by_text(readable(pair[0]), readable(pair[1]))
            if pair in self._known:
                verdicts[pair] = self._known[pair]
            elif outcome is None:
                asked.append(pair)
            elif outcome == "refused":
                too_long.append(pair)
            else:
                verdicts[pair] = outcome == "correct"
        decided = self._compared(asked)
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._known |= decided
        verdicts |= decided
        self.undecided_because[TOO_LONG] += len(too_long)
        self.counters["compared"] += len(asked) + len(too_long)
        self.counters["equal"] += sum(decided.values())
        self.counters["undecided"] = self.undecided_because.total()
        return [verdicts.get(pair) for pair in pairs]

    def close(self) -> None:
        """Ends the processes; comparing again starts new ones."""
        if self._workers is not None:
            self._workers.close()

    def _compared(self, pairs: Sequence[_Pair]) -> dict[_Pair, bool]:
        """The verdicts of math-verify, for those pairs on which it reaches one."""
        if self._workers is None:
            self.undecided_because[NOT_INSTALLED] += len(pairs)
            return {}
        decided: dict[_Pair, bool] = {}
        for start in range(0, len(pairs), _AT_A_TIME):
            part = pairs[start : start + _AT_A_TIME]
            if self._seconds >= self._most_seconds:
                self.undecided_because[OUT_OF_TIME] += len(part)
                continue
            asked = [pair for pair in part if self._slow.isdisjoint(pair)]
            self.undecided_because[TIMED_OUT] += len(part) - len(asked)
            started = time.monotonic()
            decided |= self._decided(self._workers, asked)
            self._seconds += time.monotonic() - started
        return decided

    def _decided(self, workers: AnswerWorkers, pairs: Sequence[_Pair]) -> dict[_Pair, bool]:
        """The verdicts of math-verify on a few pairs; of the others the reason is counted, and slow answers noted."""
        outcomes = _outcomes(workers, pairs)
        # math-verify asks whether an answer fits the gold one, which an ordered pair does to a list, not the other way
        # round: equal answers fit each other.
        fitting = [pair for pair in pairs if outcomes[pair] == "correct"]
        turned = _outcomes(workers, [(other, one) for one, other in fitting])
        outcomes |= {(one, other): turned[other, one] for one, other in fitting}
        decided = {}
        for pair, outcome in outcomes.items():
            if outcome in ("correct", "wrong"):
                decided[pair] = outcome == "correct"
            elif outcome == "timeouts":
                self.undecided_because[TIMED_OUT] += 1
                # Which of the two takes so long, nobody knows.
                self._slow.update(pair)
            else:
                self.undecided_because[FAILED] += 1
        return decided


def _outcomes(workers: AnswerWorkers, pairs: Sequence[_Pair]) -> dict[_Pair, str]:
    """What math-verify says of each pair, the first of which stands for the gold answer."""
    asked = [comparable(readable(one), readable(other)) for one, other in pairs]
    return dict(zip(pairs, workers.compare(asked), strict=True))
