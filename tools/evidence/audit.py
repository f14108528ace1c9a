"""How many of the intervals that the audit printed hold, from the claims that the benchmark wrote.

The claims are those of `python -m benchmarks.verifier_rates --claims evidence/verifier_rates.json`. An interval from 0
to 100% says nothing and cannot miss: the audit prints "not known" for it. Such a claim is counted apart.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from tools.evidence.results import ROOT

FILE = ROOT / "evidence" / "verifier_rates.json"
# What the kinds of tables with solutions by real models begin with; the others have made verifiers.
REAL = ("example", "gsm8k", "math")
ROUNDING = 1e-9


@dataclass(frozen=True)
class Claim:
    """What the audit said of one error rate of one table, and the rate among these very rollouts."""

    table: str
    name: str
    rate: str
    truth: float | None
    low: float
    high: float
    by: str

    @property
    def says_something(self) -> bool:
        """Whether the interval leaves out any rate at all."""
        return self.low > 0 or self.high < 1

    @property
    def holds(self) -> bool:
        """Whether the interval has the true rate; a rate of no rows is in every interval."""
        return self.truth is None or self.low - ROUNDING <= self.truth <= self.high + ROUNDING


@dataclass(frozen=True)
class Held:
    """Intervals of one kind: how many were printed that say something, how many of them hold, and how wide they are."""

    held: int
    printed: int
    median_width: float | None

    @classmethod
    def of(cls, claims: Iterable[Claim]) -> Held:
        """The count of those that say something."""
        saying = [claim for claim in claims if claim.says_something]
        widths = [claim.high - claim.low for claim in saying]
        held = sum(claim.holds for claim in saying)
        return cls(held=held, printed=len(saying), median_width=median(widths) if widths else None)

    @property
    def missed(self) -> int:
        """How many do not have the true rate."""
        return self.printed - self.held

    def __str__(self) -> str:
        return f"{self.held} of {self.printed}"


@dataclass(frozen=True)
class Tables:
    """The claims of tables of one kind."""

    words: str
    claims: tuple[Claim, ...]

    @property
    def bounds(self) -> Held:
        """Intervals by bounds that need no model."""
        return Held.of(claim for claim in self.claims if claim.by == "bounds")

    @property
    def model(self) -> Held:
        """Intervals by the model of the verifier."""
        return Held.of(claim for claim in self.claims if claim.by == "model")

    @property
    def both(self) -> Held:
        """All intervals that say something."""
        return Held.of(self.claims)

    @property
    def not_known(self) -> int:
        """How many claims say nothing."""
        return sum(not claim.says_something for claim in self.claims)


@functools.cache
def claims() -> tuple[Claim, ...]:
    """Every claim, in the order of the benchmark."""
    return tuple(Claim(**claim) for claim in json.loads(FILE.read_text(encoding="utf-8")))


@functools.cache
def rows() -> tuple[Tables, ...]:
    """Every kind of tables."""
    kinds = dict.fromkeys(claim.table for claim in claims())
    return tuple(Tables(kind, tuple(claim for claim in claims() if claim.table == kind)) for kind in kinds)


def total(words: str, of: Iterable[Tables]) -> Tables:
    """Some kinds of tables as one."""
    return Tables(words, tuple(claim for row in of for claim in row.claims))


def by_source() -> tuple[Tables, ...]:
    """Solutions by real models, the same with flips on top, made verifiers, and all of them."""
    real = [row for row in rows() if row.words.startswith(REAL)]
    flipped = [row for row in real if "flipped" in row.words]
    return (
        total("solutions by real models, real verifiers", [row for row in real if row not in flipped]),
        total("the same, with 5% or 15% of the verdicts flipped", flipped),
        total("made verifiers", [row for row in rows() if row not in real]),
        total("all", rows()),
    )


def that_failed() -> tuple[Tables, ...]:
    """The kinds of tables with an interval that does not hold."""
    return tuple(row for row in rows() if row.both.missed)
