"""How well corrupted rewards are detected: the one definition behind terminal summary, report and comparison.

A row *counts* where it is known whether its reward was corrupted and it is in a pair: its group holds another reward.
Over these rows: base rate, the share that was corrupted; AUROC and average precision of a score within one batch, for a
run the mean over batches where defined; recall, the share of the corrupted ones that was marked (flagged, or changed).

Precision is the share of corrupted rows among all marked rows of known truth, in a pair or not: whoever marks a row
that could not be ranked answers for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pandas import DataFrame, Series

from geoalign.files.columns import Floats
from geoalign.lab.runs.generations import FLAGGED, OWN_SCORE, SCORES
from geoalign.lab.runs.numbers import totals_of
from geoalign.lab.runs.reading import Run
from geoalign.statistics import (
    Interval,
    PairedDifference,
    mean,
    mean_interval,
    paired_difference,
    wilson_interval,
    without_nan,
)

# The pair count as a score, and turned round: the control is whichever ranks better.
PAIR_COUNTS = ("pair_count", "fewest_pairs")


@dataclass(frozen=True)
class MarkedRows:
    """Counts of rows over all generations of a run.

    Attributes:
        in_pair: rows that count: they are in a pair of unequal rewards.
        in_pair_wrong: corrupted rows that count.
        marked: marked rows of known truth.
        marked_wrong: corrupted rows among `marked`.
        found: rows of `marked_wrong` that count.
    """

    in_pair: int
    in_pair_wrong: int
    marked: int
    marked_wrong: int
    found: int

    @property
    def base_rate(self) -> float:
        """The share of corrupted rewards among the rows that count."""
        return self.in_pair_wrong / self.in_pair if self.in_pair else math.nan

    @property
    def precision(self) -> float:
        """The share of corrupted rewards among the marked rows."""
        return self.marked_wrong / self.marked if self.marked else math.nan

    @property
    def recall(self) -> float:
        """The share of the corrupted rewards that count which was marked."""
        return self.found / self.in_pair_wrong if self.in_pair_wrong else math.nan


def marked_rows(numbers: DataFrame, marked: str = FLAGGED) -> MarkedRows:
    """The marked rows of a run; `marked` is `FLAGGED` or `CHANGED`."""
    totals = totals_of(numbers)
    return MarkedRows(
        in_pair=int(totals.get("in_pair", 0)),
        in_pair_wrong=int(totals.get("in_pair_wrong", 0)),
        marked=int(totals.get(f"{marked}_known", 0)),
        marked_wrong=int(totals.get(f"{marked}_wrong", 0)),
        found=int(totals.get(f"{marked}_found", 0)),
    )


@dataclass(frozen=True)
class ScoreDetection:
    """How one score ranks corrupted rewards: means over `count` steps of a run, or seeds of an arm, with intervals."""

    score: str
    auroc: Interval
    auprc: Interval
    count: int


@dataclass(frozen=True)
class Detection:
    """Detection in a run or by an arm. `control` is the direction of the pair count that ranks better, "" where
    there is none; `gain` the own score's AUROC minus that one's, paired by step or seed."""

    rows: tuple[ScoreDetection, ...]
    precision: Interval
    base_rate: Interval
    control: str
    gain: PairedDifference

    def row(self, score: str) -> ScoreDetection | None:
        """The row of a score; None where it ranked nothing."""
        return next((row for row in self.rows if row.score == score), None)


def areas_of(numbers: DataFrame) -> DataFrame:
    """The `auroc/NAME` and `auprc/NAME` of the generations of a run as columns, a row for each step."""
    areas = numbers[numbers.metric.str.startswith(("auroc/", "auprc/"))]
    return areas.pivot_table(index="step", columns="metric", values="value")


def detection_over_units(
    areas: DataFrame, *, precision: Interval, base_rate: Interval, interval: Callable[[Floats], Interval]
) -> Detection | None:
    """Detection over units, each estimate by `interval`; None where no score ranked anything.

    Args:
        areas: `auroc/NAME` and `auprc/NAME` of each score as columns, a row for each unit: step of a run, or seed.
    """
    areas = areas.dropna(axis="columns", how="all")
    rows = []
    for score in SCORES:
        if f"auroc/{score}" in areas:
            values = areas[f"auroc/{score}"].to_numpy(np.float64)
            precisions = areas[f"auprc/{score}"].to_numpy(np.float64)
            rows.append(ScoreDetection(score, interval(values), interval(precisions), len(without_nan(values))))
    if not rows:
        return None
    controls = [row for row in rows if row.score in PAIR_COUNTS]
    control = max(controls, key=lambda row: row.auroc.estimate).score if controls else ""
    own = by_unit(areas, f"auroc/{OWN_SCORE}")
    other = by_unit(areas, f"auroc/{control}")
    return Detection(
        rows=tuple(rows),
        precision=precision,
        base_rate=base_rate,
        control=control,
        gain=paired_difference(own, other),
    )


@dataclass(frozen=True)
class MeanRanking:
    """How one score ranks corrupted rewards in a whole run: means over the `generations` where it is defined."""

    auroc: float
    auprc: float
    generations: int


def by_unit(frame: DataFrame, column: str) -> dict[int, float]:
    """A column by step or seed; empty where the frame does not have it."""
    return dict(zip(frame.index.tolist(), frame[column].tolist(), strict=True)) if column in frame else {}


def whole_run(areas: DataFrame) -> dict[str, MeanRanking]:
    """How each score ranks corrupted rewards in a run, from its `areas_of` steps; without scores that ranked nothing.

    Of a curator with a score of its own every ranking is of the generations that it could rank, so that its score and
    the pair count are judged on the same ones.
    """
    if f"auroc/{OWN_SCORE}" in areas:
        areas = areas[areas[f"auroc/{OWN_SCORE}"].notna()]
    found = {}
    for score in SCORES:
        if f"auroc/{score}" in areas:
            of_score = areas[f"auroc/{score}"].dropna()
            if len(of_score):
                found[score] = MeanRanking(mean(of_score), mean(areas[f"auprc/{score}"]), len(of_score))
    return found


# --- what a run's page says -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunDetection:
    """What a run's page says of its flags: detection over its steps, None for the reason `undefined`; the flagged rows;
    how many corrupted ones had no score."""

    found: Detection | None
    flags: MarkedRows
    unscored: int
    undefined: str


def detect(run: Run, numbers: DataFrame) -> RunDetection:
    """Detection over all steps of a run; the precision is that of its flags, with Wilson's interval."""
    flags = marked_rows(numbers)
    found = detection_over_units(
        areas_of(numbers),
        precision=wilson_interval(flags.marked_wrong, flags.marked),
        base_rate=Interval(flags.base_rate, math.nan, math.nan),
        interval=mean_interval,
    )
    totals = totals_of(numbers)
    reason = why_no_scores(run, totals) or _why_undefined(totals, found)
    return RunDetection(
        found=None if reason else found,
        flags=flags,
        unscored=int(totals.get("unscored_wrong", 0)),
        undefined=reason,
    )


def why_no_scores(run: Run, totals: Series) -> str:
    """Why no rollout of this run has a score; empty where one has."""
    if not run.rollouts:
        return "The run folder holds no rollouts (yet)."
    if totals["scored"]:
        return ""
    if run.curator_name in ("grpo", "unknown"):
        return f"The curator of this run ({run.curator_name}) gives no scores: it changes nothing."
    return (
        f"No rollout of this run has a score, though its curator is {run.curator_name}: "
        "no group held two rollouts with different rewards, or every batch was too small."
    )


def _why_undefined(totals: Series, found: Detection | None) -> str:
    """Why nothing is said of how well wrong rewards were found; empty where something is."""
    if not totals["known"]:
        return "Nothing says which rewards are wrong: this run records neither true rewards nor corrupted rows."
    if not totals["wrong"]:
        return "No reward of this run was flipped (reward.flip is 0, or none was drawn), so there is nothing to find."
    if found is None:
        return "No step has both a flipped and an unflipped rollout with a score, so nothing can be ranked."
    return ""
