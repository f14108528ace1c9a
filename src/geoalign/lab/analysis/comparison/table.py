"""The typed table of a comparison: what the page draws and `geoalign compare` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geoalign.lab.analysis.detection import SCORES, Detection
from geoalign.lab.analysis.statistics import Interval, PairedDifference
from geoalign.lab.config.compare import CompareConfig
from geoalign.lab.store.columns import Floats, Ints
from geoalign.lab.store.comparison import Cell

PRIMARY, EXPLORATORY, HEADROOM, BOUND = "primary", "exploratory", "headroom", "bound"


@dataclass(frozen=True)
class Measure:
    """A number by seed, its mean over seeds with a 95% interval, and its paired difference to the baseline."""

    values: Mapping[int, float]
    interval: Interval
    difference: PairedDifference


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
class Curve:
    """A quantity over steps, one row a seed: `values` [seeds, steps], NaN where a seed lacks a step."""

    seeds: tuple[int, ...]
    steps: Ints
    values: Floats


@dataclass(frozen=True, eq=False)
class ArmRow:
    """One arm at one level: its finished seeds and cells, the cells that failed, planned seeds without a result, the
    fewest evaluations behind a final score, the numbers of `scores.MEASURES`, pass@k of the last evaluation, each
    metric over steps."""

    level: str
    arm: str
    role: str
    curator: str
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]
    failures: tuple[Cell, ...]
    missing: tuple[int, ...]
    evaluations: int
    measures: Mapping[str, Measure]
    pass_at_k: Mapping[int, Measure]
    detection: Detection | None
    curves: Mapping[str, Curve]

    @property
    def score(self) -> Measure:
        return self.measures["score"]

    @property
    def gold(self) -> Measure:
        return self.measures["gold"]

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


@dataclass(frozen=True)
class Recovered:
    """One arm's gain over the baseline, and its share of the cost, with Fieller's interval over paired seeds."""

    row: ArmRow
    gain: PairedDifference
    share: Interval


@dataclass(frozen=True)
class Recovery:
    """What wrong rewards, a share `rate` of all, cost the baseline, which believes them, at a level: the final score of
    the `clean` arm without any minus its own, paired by seed; all other arms, the oracle included, best first."""

    rate: float
    baseline: ArmRow
    clean: ArmRow
    cost: PairedDifference
    arms: tuple[Recovered, ...]
    headline: str = ""
    footnote: str = ""


@dataclass(frozen=True, eq=False)
class LevelTable:
    """One level of corruption: its arms, comparisons, what they amount to (the headroom first), and what was recovered
    of the cost of wrong rewards."""

    level: str
    rate: float
    corruption: Mapping[str, float]
    rows: tuple[ArmRow, ...]
    comparisons: tuple[Comparison, ...]
    statements: tuple[Statement, ...]
    recovery: Recovery | None = None

    @property
    def judged(self) -> tuple[ArmRow, ...]:
        """The arms with known detection of corrupted rewards, or known agreement with the true ones."""
        name = "advantage_cosine"
        return tuple(row for row in self.rows if row.detection or not math.isnan(row.measures[name].interval.estimate))

    @property
    def detection_scores(self) -> list[str]:
        """Names of the scores whose detection was measured for any arm, in their order."""
        found = {row.score for arm in self.rows if arm.detection for row in arm.detection.rows}
        return [name for name in SCORES if name in found]

    @property
    def reference(self) -> ArmRow | None:
        """The arm whose ranks and projector are drawn: GeoAlign in the primary comparison, else the first GeoAlign."""
        candidates = [row for row in self.rows if row.is_geoalign and row.seeds]
        return next((row for row in candidates if row.role == "primary"), candidates[0] if candidates else None)

    def comparison(self, arm: str, against: str) -> Comparison | None:
        return next((item for item in self.comparisons if (item.arm, item.against) == (arm, against)), None)

    def against(self, arm: str | None) -> list[Comparison]:
        return [item for item in self.comparisons if item.against == arm]

    def row(self, arm: str) -> ArmRow | None:
        return next((row for row in self.rows if row.arm == arm), None)


@dataclass(frozen=True, eq=False)
class Table:
    """A comparison: what was planned, the planned cells by level and arm, those that failed, notes."""

    plan: CompareConfig
    levels: tuple[LevelTable, ...]
    failures: tuple[Cell, ...]
    notes: tuple[str, ...]
