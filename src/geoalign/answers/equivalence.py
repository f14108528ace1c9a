"""Which answers of one prompt are equal, where their text does not tell: by math-verify, in guarded processes."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from geoalign.answers.verdict_forms import comparable, quick_verdict, readable, verdict_by_form
from geoalign.answers.verified import MOST_CHARACTERS
from geoalign.answers.workers import AnswerWorkers

# So many pairs of one batch or file are compared, and no more after so many that came to no verdict: an answer that
# takes its whole time limit costs as much as hundreds of others.
MOST_PAIRS = 2000
MOST_FAILURES = 20
_AT_A_TIME = 64
_REMEMBERED = 65536
_SECONDS = 2.0


def math_verify_is_installed() -> bool:
    return importlib.util.find_spec("math_verify") is not None


class EqualAnswers:
    """The `Equivalence` of `answers_by_class`: two answers are one if math-verify calls each equal to the other.

    `counters` counts pairs since the start: compared, equal among these, and undecided, which are taken for different
    because there were more than `MOST_PAIRS` in a call, or the time limit or an error came first.
    """

    def __init__(self, workers: AnswerWorkers | None = None) -> None:
        self._workers = workers if workers is not None else AnswerWorkers(count=2, timeout=_SECONDS)
        self._known: dict[tuple[str, str], str] = {}
        self.counters = dict.fromkeys(("compared", "equal", "undecided"), 0)

    def equal(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """For each pair whether it is one answer; False, too, where that was not found out."""
        said = {pair: self._at_once(*pair) for pair in dict.fromkeys(pairs)}
        asked = [pair for pair, verdict in said.items() if verdict is None]
        said |= self._compared(asked)
        self.counters["compared"] += len(asked)
        self.counters["equal"] += sum(said[pair] == "correct" for pair in asked)
        self.counters["undecided"] += sum(said[pair] not in ("correct", "wrong") for pair in asked)
        return [said[pair] == "correct" for pair in pairs]

    def close(self) -> None:
        """Ends the processes; comparing again starts new ones."""
        self._workers.close()

    def _at_once(self, one: str, other: str) -> str | None:
        known = self._known.get((one, other))
        if known is not None:
            return known
        if max(len(one), len(other)) > MOST_CHARACTERS:
            return "wrong"
        for decide in (quick_verdict, verdict_by_form):
            equal = decide(readable(one), readable(other))
            if equal is not None:
                return "correct" if equal else "wrong"
        return None

    def _compared(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        found = dict.fromkeys(pairs, "undecided")
        failures = 0
        for start in range(0, min(len(pairs), MOST_PAIRS), _AT_A_TIME):
            if failures >= MOST_FAILURES:
                break
            part = pairs[start : min(start + _AT_A_TIME, MOST_PAIRS)]
            verdicts = self._verdicts(part)
            # math-verify asks whether an answer fits the gold one, which an ordered pair does to a list, not the
            # other way round: equal answers fit each other.
            fitting = [pair for pair in part if verdicts[pair] == "correct"]
            turned = self._verdicts([(other, one) for one, other in fitting])
            verdicts |= {(one, other): turned[other, one] for one, other in fitting}
            failures += sum(verdict not in ("correct", "wrong") for verdict in verdicts.values())
            found |= verdicts
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        self._known |= {pair: verdict for pair, verdict in found.items() if verdict in ("correct", "wrong")}
        return found

    def _verdicts(self, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        asked = [comparable(readable(one), readable(other)) for one, other in pairs]
        return dict(zip(pairs, self._workers.compare(asked), strict=True))
