"""Which answers of one prompt are equal, where their text does not tell: by math-verify, in guarded processes."""

from __future__ import annotations

import importlib.util
import time
from collections import Counter, defaultdict
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
    """Whether math-verify can be imported, which is not done here; without it texts alone decide."""
    return importlib.util.find_spec("math_verify") is not None


class EqualAnswers:
    """The `Equivalence` of `answers_by_class`: two answers are one if math-verify calls each equal to the other.

    Math-verify may take `most_seconds` for a batch or file, which begins with `renew`; a first one begins at once. An
    answer that it takes too long for is not asked about again in that batch or file: the second answer of a pair, as
    soon as one comparison ran out of time, and the first one after that with two others. For in the pairs of
    `answers_by_class` the first answer is the more frequent one, and stays to be compared with all that come after a
    slow one. Where math-verify is not installed, texts alone decide.

    Attributes:
        counters: pairs since the start on which no text decides: compared, equal among these, and undecided. A pair
            that is too long to be compared counts once, however often it is asked about.
        undecided_because: by reason how many pairs stayed undecided.
    """

    def __init__(self, workers: AnswerWorkers | None = None, *, most_seconds: float = MOST_SECONDS) -> None:
        if workers is None and math_verify_is_installed():
            workers = AnswerWorkers(count=2, timeout=_SECONDS)
        self._workers = workers
        self._most_seconds = most_seconds
        self._known: dict[_Pair, bool] = {}
        self._too_long: set[_Pair] = set()
        self.counters = dict.fromkeys(("compared", "equal", "undecided"), 0)
        self.undecided_because: Counter[str] = Counter()
        self.renew()

    def renew(self) -> None:
        """Begins another batch or file: the time that was spent, and answers that took too long, are forgotten."""
        self._seconds = 0.0
        self._slow: set[str] = set()
        # By the first answer of pairs on which time ran out, the second ones.
        self._ran_out_with: dict[str, set[str]] = defaultdict(set)

    def equal(self, pairs: Sequence[_Pair]) -> list[bool | None]:
        """For each pair whether it is one answer; None where that was not found out."""
        equal_by_pair: dict[_Pair, bool] = {}
        undecided_by_text = []
        for pair in dict.fromkeys(pairs):
            if pair in self._known:
                equal_by_pair[pair] = self._known[pair]
            elif pair not in self._too_long:
                outcome = outcome_by_text(readable(pair[0]), readable(pair[1]))
                if outcome is None:
                    undecided_by_text.append(pair)
                elif outcome == "refused":
                    self._leave_out(pair)
                else:
                    equal_by_pair[pair] = outcome == "correct"
        found = self._compared(undecided_by_text)
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._known |= found
        equal_by_pair |= found
        self.counters["compared"] += len(undecided_by_text)
        self.counters["equal"] += sum(found.values())
        self.counters["undecided"] = self.undecided_because.total()
        return [equal_by_pair.get(pair) for pair in pairs]

    def _leave_out(self, pair: _Pair) -> None:
        """Counts a pair that is too long to be compared, and remembers it, so that it is counted once."""
        if len(self._too_long) > _REMEMBERED:
            self._too_long.clear()
        self._too_long.add(pair)
        self.undecided_because[TOO_LONG] += 1
        self.counters["compared"] += 1

    def close(self) -> None:
        """Ends the processes; comparing again starts new ones."""
        if self._workers is not None:
            self._workers.close()

    def _compared(self, pairs: Sequence[_Pair]) -> dict[_Pair, bool]:
        """Whether each pair is one answer by math-verify, for those pairs on which it finds it out."""
        if self._workers is None:
            self.undecided_because[NOT_INSTALLED] += len(pairs)
            return {}
        equal_by_pair: dict[_Pair, bool] = {}
        for start in range(0, len(pairs), _AT_A_TIME):
            part = pairs[start : start + _AT_A_TIME]
            if self._seconds >= self._most_seconds:
                self.undecided_because[OUT_OF_TIME] += len(part)
                continue
            asked = [pair for pair in part if self._slow.isdisjoint(pair)]
            self.undecided_because[TIMED_OUT] += len(part) - len(asked)
            started = time.monotonic()
            equal_by_pair |= self._asked(self._workers, asked)
            self._seconds += time.monotonic() - started
        return equal_by_pair

    def _asked(self, workers: AnswerWorkers, pairs: Sequence[_Pair]) -> dict[_Pair, bool]:
        """Whether each of a few pairs is one answer by math-verify; of the others the reason is counted, and slow
        answers noted."""
        outcome_by_pair = _outcomes(workers, pairs)
        # math-verify asks whether an answer fits the gold one, which an ordered pair does to a list, not the other way
        # round: equal answers fit each other.
        fitting = [pair for pair in pairs if outcome_by_pair[pair] == "correct"]
        turned = _outcomes(workers, [(other, one) for one, other in fitting])
        outcome_by_pair |= {(one, other): turned[other, one] for one, other in fitting}
        equal_by_pair = {}
        for pair, outcome in outcome_by_pair.items():
            if outcome in ("correct", "wrong"):
                equal_by_pair[pair] = outcome == "correct"
            elif outcome == "timeouts":
                self.undecided_because[TIMED_OUT] += 1
                self._note_slow(*pair)
            else:
                self.undecided_because[FAILED] += 1
        return equal_by_pair

    def _note_slow(self, first: str, second: str) -> None:
        """Notes which answer of a pair took so long: the second, and the first where it took so long with another."""
        self._slow.add(second)
        self._ran_out_with[first].add(second)
        if len(self._ran_out_with[first]) > 1:
            self._slow.add(first)


def _outcomes(workers: AnswerWorkers, pairs: Sequence[_Pair]) -> dict[_Pair, str]:
    """What math-verify says of each pair, the first of which stands for the gold answer."""
    asked = [comparable(readable(one), readable(other)) for one, other in pairs]
    return dict(zip(pairs, workers.compare(asked), strict=True))
