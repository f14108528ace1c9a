"""The typed table of a comparison: what the page draws and `geoalign compare` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geoalign.lab.analysis.statistics import Interval, PairedDifference
from geoalign.lab.store.columns import Floats, Ints

PRIMARY, EXPLORATORY, HEADROOM, BOUND = "primary", "exploratory", "headroom", "bound"


_SCORES = ("score", "mean_score", "pair_count", "fewest_pairs", "distance")


def _in_order(score: str) -> tuple[int, str]:
    return (_SCORES.index(score) if score in _SCORES else len(_SCORES), score)


@dataclass(frozen=True)
class Failure:
    """A cell that crashed, and why."""

    level: str
    arm: str
    seed: int
    error: str


@dataclass(frozen=True)
class Measure:
    """A number by seed, its mean over seeds with a 95% interval, and its paired difference to the baseline."""

    values: Mapping[int, float]
    interval: Interval
    difference: PairedDifference


@dataclass(frozen=True)
class Comparison:
    """An arm's final score minus another arm's at one level.

    `kind` is "primary" (fixed beforehand, raw p), "exploratory" (`adjusted_p` is Holm's within the level), "headroom"
    or "bound"; `adjusted_p` is NaN but for exploratory ones.
    """

    level: str
    arm: str
    against: str
    kind: str
    difference: PairedDifference
    adjusted_p: float


@dataclass(frozen=True)
class DetectionRow:
    """How one score of an arm ranks corrupted rewards: means over seeds with 95% intervals."""

    score: str
    auroc: Interval
    auprc: Interval
    seeds: int


@dataclass(frozen=True)
class Detection:
    """Detection by one arm: each score, precision among the replaced, and what the score has above the pair count.

    `control` is the direction of the pair count (or of its opposite) that ranks better over these seeds; `gain` the
    arm's own score minus that, paired by seed.
    """

    rows: tuple[DetectionRow, ...]
    precision: Interval
    base_rate: Interval
    control: str
    gain: PairedDifference

    def row(self, score: str) -> DetectionRow | None:
        """The row of a score; None where it was not measured."""
        return next((row for row in self.rows if row.score == score), None)


@dataclass(frozen=True, eq=False)
class Curve:
    """A quantity over steps, one row a seed: `values` [seeds, steps], NaN where a seed lacks a step."""

    seeds: tuple[int, ...]
    steps: Ints
    values: Floats


@dataclass(frozen=True, eq=False)
class ArmRow:
    """One arm at one level, over its finished seeds.

    Attributes:
        role: as `CompareConfig.role`.
        seeds: finished seeds; `failures`: seeds that crashed; `missing`: planned seeds without a result.
        evaluations: evaluations behind the final score, the fewest over seeds.
        score: final score on the plan's metric.
        reward, gold: final proxy reward and final gold utility, NaN where not there.
        hacking_gap: rise of the proxy reward minus rise of the gold utility since the first evaluation, each as a share
            of its own range over the level; NaN without both.
        gold_drop: deepest fall of the gold utility below its best.
        oscillation, largest_drop: of the evaluation curve.
        kl_mean, kl_median, clip_mean, clip_median: over the generations of a run, each the mean of its updates.
        new_group_accuracy, heldout_accuracy: of the projector, mean over steps.
        advantage_cosine: of the advantages with those of the true rewards, mean over generations;
            `observed_advantage_cosine`: that of the rewards as they came.
        replaced: rollouts replaced per generation.
        curation_seconds: per step; `curation_share`: of the step's seconds.
        memory: peak of the process in bytes; its difference to the baseline is what the curator added.
        pass_at_k: of the last evaluation, mean over its sets.
        curve: the plan's metric over steps; `reward_curve`, `gold_curve` likewise.
    """

    level: str
    arm: str
    role: str
    curator: str
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    failures: tuple[Failure, ...]
    missing: tuple[int, ...]
    evaluations: int
    score: Measure
    reward: Measure
    gold: Measure
    hacking_gap: Measure
    gold_drop: Measure
    oscillation: Measure
    largest_drop: Measure
    kl_mean: Measure
    kl_median: Measure
    clip_mean: Measure
    clip_median: Measure
    new_group_accuracy: Measure
    heldout_accuracy: Measure
    advantage_cosine: Measure
    observed_advantage_cosine: Measure
    replaced: Measure
    curation_seconds: Measure
    curation_share: Measure
    memory: Measure
    pass_at_k: Mapping[int, Measure]
    detection: Detection | None
    curve: Curve
    reward_curve: Curve
    gold_curve: Curve


@dataclass(frozen=True)
class Statement:
    """A sentence about a comparison and what it amounts to.

    `verdict`: "better", "worse", "undecided" (the interval holds zero) or "none" (no verdict is possible).
    """

    level: str
    arm: str
    kind: str
    verdict: str
    text: str


@dataclass(frozen=True, eq=False)
class LevelTable:
    """One level of corruption: its arms, the headroom (None without an oracle), comparisons and what they amount to."""

    level: str
    rate: float
    corruption: Mapping[str, float]
    rows: tuple[ArmRow, ...]
    headroom: Comparison | None
    comparisons: tuple[Comparison, ...]
    statements: tuple[Statement, ...]

    @property
    def decidable(self) -> bool:
        """Whether a verdict on a curator is possible: the headroom's interval lies above zero."""
        return self.headroom is not None and self.headroom.difference.interval.low > 0

    @property
    def judged(self) -> tuple[ArmRow, ...]:
        """The arms of which it is known how well they detected corrupted rewards, or how close they came to the true
        ones."""
        return tuple(
            row
            for row in self.rows
            if row.detection is not None or not math.isnan(row.advantage_cosine.interval.estimate)
        )

    @property
    def detection_scores(self) -> list[str]:
        """Names of the scores whose detection was measured for any arm."""
        rows = [row for arm in self.rows if arm.detection for row in arm.detection.rows]
        return sorted(dict.fromkeys(row.score for row in rows), key=_in_order)

    def comparison(self, arm: str, against: str) -> Comparison | None:
        """The comparison of two arms; None where none was made."""
        return next((item for item in self.comparisons if (item.arm, item.against) == (arm, against)), None)

    def against(self, arm: str | None) -> list[Comparison]:
        """All comparisons with an arm."""
        return [item for item in self.comparisons if item.against == arm]

    def row(self, arm: str) -> ArmRow | None:
        """The row of an arm; None where it has no result here."""
        return next((row for row in self.rows if row.arm == arm), None)


@dataclass(frozen=True, eq=False)
class Table:
    """The whole comparison."""

    levels: tuple[LevelTable, ...]
    failures: tuple[Failure, ...]
    notes: tuple[str, ...]
