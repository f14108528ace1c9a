"""How well corrupted rewards are detected: the one definition behind terminal summary, report and comparison.

A row *counts* where it is known whether its reward was corrupted and it is in a pair: its group holds another reward.
Over these rows: base rate, the share that was corrupted; AUROC and average precision of a score within one batch, for a
run the mean over batches where defined; recall, the share of the corrupted ones that was marked (flagged, or replaced).

Precision is the share of corrupted rows among all marked rows of known truth, in a pair or not: whoever marks a row
that could not be ranked answers for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from geoalign.files.columns import Bools, Floats
from geoalign.files.rollout_step import RolloutStep
from geoalign.lab.runs.reading import Run
from geoalign.statistics import (
    Interval,
    PairedDifference,
    auroc,
    average_precision,
    known,
    mean,
    mean_interval,
    pair_counts,
    paired_difference,
    wilson_interval,
)

# Scores and controls that are looked at, in the order of the tables, and what pages call them.
SCORES = {
    "score": "the curator's score",
    "pair_count": "number of pairs",
    "fewest_pairs": "number of pairs, fewest first",
    "distance": "distance to the group's mean",
}
OWN_SCORE = "score"
# The pair count as a score, and turned round: the control is whichever ranks better.
PAIR_COUNTS = ("pair_count", "fewest_pairs")


class Ranking(NamedTuple):
    """AUROC and average precision of one score on one batch; NaN where rows of one kind alone have a score."""

    auroc: float
    auprc: float


@dataclass(frozen=True)
class Tally:
    """Counts over any number of batches: rows that count, the corrupted ones among them, and those of both marked.

    `marked` and `marked_corrupted` are over all rows of known truth, `found` are the marked ones among `corrupted`.
    """

    rows: int = 0
    corrupted: int = 0
    marked: int = 0
    marked_corrupted: int = 0
    found: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(Tally)))

    @property
    def base_rate(self) -> float:
        return self.corrupted / self.rows if self.rows else math.nan

    @property
    def precision(self) -> float:
        return self.marked_corrupted / self.marked if self.marked else math.nan

    @property
    def recall(self) -> float:
        return self.found / self.corrupted if self.corrupted else math.nan


def mean_ranking(rankings: Iterable[Ranking]) -> tuple[Ranking, int]:
    """The mean over the batches where the ranking is defined, and their number; NaN and 0 where there is none."""
    defined = [item for item in rankings if not math.isnan(item.auroc)]
    areas, precisions = zip(*defined, strict=True) if defined else ((), ())
    return Ranking(mean(areas), mean(precisions)), len(defined)


# --- every score and control of a run, or of the seeds of an arm ------------------------------------------------------


def scores_of(step: RolloutStep) -> dict[str, Floats]:
    """Every score and control of a generation; NaN for rows in no pair, which nobody could rank.

    `score` is the curator's own; `distance` |reward - group mean|; `pair_count` and `fewest_pairs` know nothing but how
    many rows of the group have another reward.
    """
    count = pair_counts(step.reward, step.group).astype(np.float64)
    count[count == 0] = np.nan
    distance = np.full(len(count), np.nan)
    for group in np.unique(step.group):
        rows = (step.group == group) & ~np.isnan(step.reward)
        if rows.any():
            distance[rows] = np.abs(step.reward[rows] - step.reward[rows].mean())
    paired = ~np.isnan(count)
    own = np.where(paired, step.score, np.nan)
    distance = np.where(paired, distance, np.nan)
    return {"score": own, "pair_count": count, "fewest_pairs": -count, "distance": distance}


def rankings_of(step: RolloutStep) -> dict[str, Ranking]:
    """How each score and control ranks the corrupted rows that count above the others, of rows with a score."""
    rows = _counting(step)
    corrupted, scores = step.flipped[rows], scores_of(step)
    return {
        name: Ranking(auroc(values[rows], corrupted), average_precision(values[rows], corrupted))
        for name, values in scores.items()
    }


def tally_of(step: RolloutStep, marked: Bool[np.ndarray, " b"]) -> Tally:
    counting, known_marked = _counting(step), step.flip_known & marked
    each = (
        counting, counting & step.flipped, known_marked, known_marked & step.flipped, counting & marked & step.flipped
    )  # fmt: skip
    return Tally(*(int(rows.sum()) for rows in each))


def _counting(step: RolloutStep) -> Bools:
    """[B] True for the rows of known truth that are in a pair."""
    rows: Bools = step.flip_known & (pair_counts(step.reward, step.group) > 0)
    return rows


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
        return next((row for row in self.rows if row.score == score), None)


def detection(
    units: Mapping[int, Mapping[str, tuple[float, float]]],
    *,
    precision: Interval,
    base_rate: Interval,
    interval: Callable[[Floats], Interval],
) -> Detection | None:
    """Detection over steps or seeds, of each the `Ranking` by score; None where no score has any."""
    names = list(dict.fromkeys(name for scores in units.values() for name in scores))
    unknown = Ranking(math.nan, math.nan)
    found = {name: np.array([scores.get(name, unknown) for scores in units.values()]) for name in names}
    areas = {name: dict(zip(units, column[:, 0].tolist(), strict=True)) for name, column in found.items()}
    if all(np.isnan(column[:, 0]).all() for column in found.values()):
        return None
    rows = tuple(
        ScoreDetection(name, interval(column[:, 0]), interval(column[:, 1]), len(known(column[:, 0])))
        for name, column in found.items()
    )
    controls = [row for row in rows if row.score in PAIR_COUNTS and not math.isnan(row.auroc.estimate)]
    control = max(controls, key=lambda row: row.auroc.estimate).score if controls else ""
    gain = paired_difference(areas.get(OWN_SCORE, {}), areas.get(control, {}))
    return Detection(rows, precision, base_rate, control, gain)


@dataclass(frozen=True)
class RunDetection:
    """What a run's page says of its flags: detection over its steps, None for the reason `undefined`; flagged and
    flipped rollouts over all steps; how many flipped ones had no score."""

    found: Detection | None
    flags: Tally
    unscored: int
    undefined: str


def detect(run: Run) -> RunDetection:
    """Detection over all steps of a run; the precision is that of its flags, with Wilson's interval."""
    flags, unscored, units = Tally(), 0, {}
    for step in run.rollouts:
        units[step.step] = rankings_of(step)
        flags += tally_of(step, step.anomalous)
        unscored += int((step.flipped & step.flip_known & ~step.scored).sum())
    precision = wilson_interval(flags.marked_corrupted, flags.marked)
    base_rate = Interval(flags.base_rate, math.nan, math.nan)
    found = detection(units, precision=precision, base_rate=base_rate, interval=mean_interval)
    reason = _why_undefined(run, found)
    return RunDetection(None if reason else found, flags, unscored, reason)


def why_no_scores(run: Run) -> str:
    """Why no rollout of this run has a score; empty where one has."""
    if not run.rollouts:
        return "The run folder holds no rollouts (yet)."
    if any(step.scored.any() for step in run.rollouts):
        return ""
    if run.curator_name in ("grpo", "unknown"):
        return f"The curator of this run ({run.curator_name}) gives no scores: it changes nothing."
    return (
        f"No rollout of this run has a score, though its curator is {run.curator_name}: "
        "no group held two rollouts with different rewards, or every batch was too small."
    )


def _why_undefined(run: Run, found: Detection | None) -> str:
    if no_scores := why_no_scores(run):
        return no_scores
    if not any(step.flip_known.any() for step in run.rollouts):
        return "Nothing says which rewards are wrong: this run records neither true rewards nor corrupted rows."
    if not any((step.flipped & step.flip_known).any() for step in run.rollouts):
        return "No reward of this run was flipped (reward.flip is 0, or none was drawn), so there is nothing to find."
    if found is None:
        return "No step has both a flipped and an unflipped rollout with a score, so nothing can be ranked."
    return ""
