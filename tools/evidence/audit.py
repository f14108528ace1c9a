"""How many of the intervals that the audit printed hold, from the table in benchmarks/verifier_rates.md."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from tools.evidence.results import ROOT

PAGE = ROOT / "benchmarks" / "verifier_rates.md"
# A row of its table: the words, and two cells "held of printed", by bounds and by the model.
ROW = re.compile(r"^\| ([^|]+) \| (\d+) of (\d+) \| (\d+) of (\d+) \|", re.MULTILINE)
# What the rows of solutions by real models begin with; the other rows are made verifiers.
REAL = ("example", "gsm8k", "math")


@dataclass(frozen=True)
class Held:
    """How many intervals of one kind were printed, and how many of them hold."""

    held: int
    printed: int

    def __add__(self, other: Held) -> Held:
        return Held(self.held + other.held, self.printed + other.printed)

    def __str__(self) -> str:
        return f"{self.held} of {self.printed}"


@dataclass(frozen=True)
class Tables:
    """The tables of rollouts of one kind: intervals by bounds, and by the model of the verifier."""

    words: str
    bounds: Held
    model: Held

    @property
    def both(self) -> Held:
        """All intervals that were printed."""
        return self.bounds + self.model


@functools.cache
def rows() -> tuple[Tables, ...]:
    """Every row of the page's table."""
    found = []
    for match in ROW.finditer(PAGE.read_text(encoding="utf-8")):
        words, bounds_held, bounds_printed, model_held, model_printed = match.groups()
        bounds = Held(int(bounds_held), int(bounds_printed))
        model = Held(int(model_held), int(model_printed))
        found.append(Tables(words.strip(), bounds, model))
    return tuple(found)


def total(words: str, of: list[Tables]) -> Tables:
    """The sum of some rows."""
    nothing = Held(0, 0)
    return Tables(words, sum((row.bounds for row in of), nothing), sum((row.model for row in of), nothing))


def by_source() -> tuple[Tables, ...]:
    """Solutions by real models, the same with flips on top, made verifiers, and all of them."""
    real = [row for row in rows() if row.words.startswith(REAL)]
    flipped = [row for row in real if "flipped" in row.words]
    return (
        total("solutions by real models, real verifiers", [row for row in real if row not in flipped]),
        total("the same, with 5% or 15% of the verdicts flipped", flipped),
        total("made verifiers", [row for row in rows() if row not in real]),
        total("all", list(rows())),
    )


def that_failed() -> tuple[Tables, ...]:
    """The rows with an interval that does not hold."""
    return tuple(row for row in rows() if row.both.held < row.both.printed)
