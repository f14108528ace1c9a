"""The typed table of a comparison: what the page draws and `geoalign compare` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pandas import DataFrame

from geoalign.lab.compare.results import RunResult
from geoalign.lab.compare.settings import METRICS, CompareConfig
from geoalign.lab.runs.detection import Detection
from geoalign.lab.runs.numbers import APPLIED
from geoalign.statistics import Interval, PairedDifference, seed_interval

PROXY = "proxy reward"
# What a comparison of two arms counts as.
PRIMARY = "primary"
EXPLORATORY = "exploratory"
HEADROOM = "headroom"
BOUND = "bound"


@dataclass(frozen=True)
class Measure:
    """A number of an arm by seed.

    Attributes:
        values: by seed, all that the arm has finished.
        interval: mean over these, with its 95% interval.
        difference: to the baseline's, over the seeds that both have.
        paired_values: over these seeds too; of the baseline itself all.
    """

    values: Mapping[int, float]
    interval: Interval
    difference: PairedDifference
    paired_values: Mapping[int, float]

    @property
    def has_values(self) -> bool:
        """Whether any seed has a value."""
        return not math.isnan(self.interval.estimate)

    @property
    def shown(self) -> Interval:
        """The mean over the seeds of the difference that stands next to it; without any difference over all seeds."""
        return seed_interval(list(self.paired_values.values())) if self.difference.pairs else self.interval


@dataclass(frozen=True)
class Comparison:
    """An arm's final score minus another arm's: "primary" (fixed beforehand), "exploratory", "headroom" or "bound".

    `adjusted_p` is Holm's within the level, NaN but for exploratory ones.
    """

    arm: str
    against: str
    kind: str
    difference: PairedDifference
    adjusted_p: float


@dataclass(frozen=True, eq=False)
class ArmRow:
    """One arm at one level.

    Attributes:
        rate: the share of its rewards that were wrong, NaN where unknown.
        seeds: those that finished; `failures`: the results of those that failed; `missing`: planned seeds without any.
        updates: the numbers of updates that its runs made on each generation, where known; one, if all are alike.
        evaluations: the fewest behind a final score.
        measures: the numbers of `numbers.MEASURES`; `pass_at_k`: of the last evaluation.
    """

    level: str
    arm: str
    role: str
    rate: float
    curator: str
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    failures: tuple[RunResult, ...]
    missing: tuple[int, ...]
    updates: tuple[float, ...]
    evaluations: int
    measures: Mapping[str, Measure]
    pass_at_k: Mapping[int, Measure]
    detection: Detection | None

    @property
    def score(self) -> Measure:
        """The final score by the comparison's metric."""
        return self.measures["score"]

    @property
    def gold(self) -> Measure:
        """The final gold reward."""
        return self.measures["gold"]

    @property
    def zero_by_construction(self) -> bool:
        """Whether KL and clip fraction can be nothing but zero: each generation was used for a single update."""
        return bool(self.updates) and max(self.updates) <= 1

    @property
    def is_geoalign(self) -> bool:
        """Whether the arm's curator is GeoAlign in any form, so that the pair count is the control it must beat."""
        return self.curator.startswith("geoalign")


@dataclass(frozen=True)
class Statement:
    """A sentence about a comparison; `verdict`: "better", "worse", "undecided" or "none" (no verdict is possible)."""

    arm: str
    kind: str
    verdict: str
    text: str


@dataclass(frozen=True, eq=False)
class LevelTable:
    """One level of wrong rewards.

    Attributes:
        numbers: its rows of the comparison's long frame.
        rows: its arms.
        statements: what the comparisons amount to, the headroom first.
        headline, footnote: the finding, and what its numbers are of; empty where nothing has finished.
    """

    level: str
    rate: float
    corruption: Mapping[str, float]
    numbers: DataFrame
    rows: tuple[ArmRow, ...]
    comparisons: tuple[Comparison, ...]
    statements: tuple[Statement, ...] = ()
    headline: str = ""
    footnote: str = ""

    @property
    def has_gold(self) -> bool:
        """Whether the truth behind the reward is known, which then is called a proxy."""
        return any(row.gold.has_values for row in self.rows)

    @property
    def judged(self) -> tuple[ArmRow, ...]:
        """The arms with wrong rewards whose detection, or agreement with the true rewards, is known."""
        return tuple(
            row
            for row in self.rows
            if row.rate != 0 and (row.detection is not None or row.measures[APPLIED].has_values)
        )

    @property
    def reference(self) -> ArmRow | None:
        """The arm whose ranks and projector are drawn: GeoAlign in the primary comparison, else the first GeoAlign."""
        candidates = [row for row in self.rows if row.is_geoalign and row.seeds]
        return next((row for row in candidates if row.role == "primary"), candidates[0] if candidates else None)

    def comparison(self, arm: str, against: str | None) -> Comparison | None:
        """The comparison of two arms, where it is made."""
        return next((item for item in self.comparisons if (item.arm, item.against) == (arm, against)), None)

    def against(self, arm: str | None) -> list[Comparison]:
        """The comparisons with an arm."""
        return [item for item in self.comparisons if item.against == arm]

    def row(self, arm: str) -> ArmRow | None:
        """The row of an arm."""
        return next((row for row in self.rows if row.arm == arm), None)


@dataclass(frozen=True, eq=False)
class Table:
    """A comparison: what was planned, the results that were, their long frame, what each level shows, notes."""

    plan: CompareConfig
    results: tuple[RunResult, ...]
    numbers: DataFrame
    levels: tuple[LevelTable, ...]
    notes: tuple[str, ...]

    @property
    def failures(self) -> tuple[RunResult, ...]:
        """The runs that failed."""
        return tuple(result for result in self.results if not result.finished)


# Sentences about unplanned comparisons that are shown unfolded where no comparison was planned.
_MOST_UNPLANNED = 4


def shown_statements(level: LevelTable) -> tuple[list[Statement], list[Statement]]:
    """The sentences that stand open, and the others: the headroom and the planned ones, or where nothing was planned a
    few of the others, which then say what was found."""
    headroom, *others = level.statements
    shown = [item for item in others if item.kind == PRIMARY] or others[:_MOST_UNPLANNED]
    return [headroom, *shown], [item for item in others if item not in shown]


def metric_words(level: LevelTable, plan: CompareConfig) -> str:
    """What is compared: a reward is called a proxy where the truth behind it is known."""
    return PROXY if plan.metric == "reward" and level.has_gold else METRICS[plan.metric]
