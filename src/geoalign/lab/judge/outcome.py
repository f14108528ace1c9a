"""From judgments to the outcome of a pair: both positions have to agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from geoalign.lab.evaluation.responses import Key
from geoalign.lab.judge.verdict import Position, Verdict

Side = Literal["a", "b"]
Winner = Literal["a", "b", "tie"]
Status = Literal["judged", "malformed", "failed"]

_OTHER: dict[Side, Side] = {"a": "b", "b": "a"}


@dataclass(frozen=True)
class Answer:
    """What came of asking a judge about one comparison.

    Attributes:
        verdict: None unless the last answer was well-formed.
        status: "judged"; "malformed": every answer was; "failed": the endpoint gave none.
        reason: why there is no verdict; "" where there is one.
        attempts: answers that came, the malformed ones included.
        text: the last answer; "" where none came.
    """

    verdict: Verdict | None
    status: Status
    reason: str
    attempts: int
    text: str


@dataclass(frozen=True)
class Judgment:
    """An answer about a pair, with whose response was shown first."""

    first: Side
    answer: Answer

    @property
    def position(self) -> Position | None:
        """The position of the winner; None without a verdict."""
        return None if self.answer.verdict is None else self.answer.verdict.winner

    @property
    def winner(self) -> Winner | None:
        """Whose response won; None without a verdict."""
        if self.position is None or self.position == "tie":
            return self.position
        return self.first if self.position == "first" else _OTHER[self.first]

    def score(self, side: Side) -> float | None:
        """The score of a side's response; None without a verdict."""
        verdict = self.answer.verdict
        if verdict is None:
            return None
        return verdict.first_score if side == self.first else verdict.second_score


@dataclass(frozen=True)
class JudgedPair:
    """A pair with its two judgments: A shown first, then B shown first."""

    key: Key
    a_first: Judgment
    b_first: Judgment

    @property
    def judgments(self) -> tuple[Judgment, Judgment]:
        """Both, in that order."""
        return (self.a_first, self.b_first)

    @property
    def status(self) -> Status:
        """ "judged" only where both judgments are; "failed" where one is; otherwise "malformed"."""
        statuses = {judgment.answer.status for judgment in self.judgments}
        return "judged" if statuses == {"judged"} else "failed" if "failed" in statuses else "malformed"

    @property
    def winner(self) -> Winner | None:
        """The side that won from both positions; "tie" for two ties, a tie against a win, or two different winners.

        None where a judgment has no verdict: such a pair is left out, never a tie.
        """
        if self.status != "judged":
            return None
        first, second = self.a_first.winner, self.b_first.winner
        return first if first == second else "tie"
