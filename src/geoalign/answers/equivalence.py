"""Which answers of one prompt are equal, where their text does not tell: by math-verify, in guarded processes."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from geoalign.answers.equality import comparable, readable
from geoalign.answers.verified import outcome_by_text
from geoalign.answers.workers import AnswerWorkers

# Limits for one batch or file: the pairs that are compared, and the pairs without a verdict after which comparing
# stops, because an answer that takes its whole time limit costs as much as hundreds of others.
MOST_PAIRS = 2000
MOST_FAILURES = 20
_AT_A_TIME = 64
_REMEMBERED = 65536
_SECONDS = 2.0

_Pair = tuple[str, str]


def math_verify_is_installed() -> bool:
    return importlib.util.find_spec("math_verify") is not None


class EqualAnswers:
    """The `Equivalence` of `answers_by_class`: two answers are one if math-verify calls each equal to the other.

    `counters` counts pairs since the start: compared, equal among these, and undecided, which are taken for different
    because there were more than `MOST_PAIRS` in a call, or the time limit or an error came first.
    """

    def __init__(self, workers: AnswerWorkers | None = None) -> None:
        self._workers = workers if workers is not None else AnswerWorkers(count=2, timeout=_SECONDS)
        self._known: dict[_Pair, bool] = {}
        self.counters = dict.fromkeys(("compared", "equal", "undecided"), 0)

    def equal(self, pairs: Sequence[_Pair]) -> list[bool]:
        """For each pair whether it is one answer; False, too, where that was not found out."""
        verdicts: dict[_Pair, bool] = {}
        asked = []
        for pair in dict.fromkeys(pairs):
            outcome = outcome_by_text(readable(pair[0]), readable(pair[1]))
            if pair in self._known:
                verdicts[pair] = self._known[pair]
            elif outcome is None:
                asked.append(pair)
            else:
                verdicts[pair] = outcome == "correct"
        decided = self._compared(asked)
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._known |= decided
        verdicts |= decided
        self.counters["compared"] += len(asked)
        self.counters["equal"] += sum(decided.values())
        self.counters["undecided"] += len(asked) - len(decided)
        return [verdicts.get(pair, False) for pair in pairs]

    def close(self) -> None:
        """Ends the processes; comparing again starts new ones."""
        self._workers.close()

    def _compared(self, pairs: Sequence[_Pair]) -> dict[_Pair, bool]:
        """The verdicts of math-verify, for those pairs on which it reaches one."""
        decided: dict[_Pair, bool] = {}
        failures = 0
        for start in range(0, min(len(pairs), MOST_PAIRS), _AT_A_TIME):
            if failures >= MOST_FAILURES:
                break
            part = pairs[start : min(start + _AT_A_TIME, MOST_PAIRS)]
            outcomes = self._outcomes(part)
            # math-verify asks whether an answer fits the gold one, which an ordered pair does to a list, not the
            # other way round: equal answers fit each other.
            fitting = [pair for pair in part if outcomes[pair] == "correct"]
            turned = self._outcomes([(other, one) for one, other in fitting])
            outcomes |= {(one, other): turned[other, one] for one, other in fitting}
            part_decided = {
                pair: outcome == "correct" for pair, outcome in outcomes.items() if outcome in ("correct", "wrong")
            }
            failures += len(part) - len(part_decided)
            decided |= part_decided
        return decided

    def _outcomes(self, pairs: Sequence[_Pair]) -> dict[_Pair, str]:
        asked = [comparable(readable(one), readable(other)) for one, other in pairs]
        return dict(zip(pairs, self._workers.compare(asked), strict=True))
