"""How well corrupted rewards are found: the one definition behind terminal summary, report and comparison.

A row *counts* where it is known whether its reward was corrupted and it is in a pair: its group holds another
reward. Nobody who compares the rollouts of a group could rank any other row. Over these rows:

- base rate: the share that was corrupted;
- AUROC and average precision: a score ranks those of them that it scored, within one batch; a run has the mean over the
  batches where that is defined;
- recall: the share of the corrupted ones that was marked.

Precision is the share of corrupted rows among all marked rows of known truth, in a pair or not: whoever marks a row
that could not be ranked answers for it. "Marked" is what the caller looks at: flagged by the curator, or replaced.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from geoalign.lab.analysis.statistics import Interval, auroc, average_precision, mean_interval, wilson_interval
from geoalign.lab.store.rollouts import Details
from geoalign.lab.store.run import Floats, Ints, RolloutStep, Run


@dataclass(frozen=True)
class Ranking:
    """AUROC and average precision of one score on one batch; NaN where rows of one kind alone have a score."""

    auroc: float
    average_precision: float

    @property
    def defined(self) -> bool:
        return not math.isnan(self.auroc)


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
        return Tally(
            self.rows + other.rows,
            self.corrupted + other.corrupted,
            self.marked + other.marked,
            self.marked_corrupted + other.marked_corrupted,
            self.found + other.found,
        )

    @property
    def base_rate(self) -> float:
        """Share of corrupted rewards among the rows that count; NaN where there is none."""
        return self.corrupted / self.rows if self.rows else math.nan

    @property
    def precision(self) -> float:
        """Share of corrupted rewards among the marked rows; NaN where nothing was marked."""
        return self.marked_corrupted / self.marked if self.marked else math.nan

    @property
    def recall(self) -> float:
        """Share of the corrupted rows that count which was marked; NaN where none was corrupted."""
        return self.found / self.corrupted if self.corrupted else math.nan


def pair_counts(rewards: Float[np.ndarray, " b"], groups: Int[np.ndarray, " b"]) -> Int[np.ndarray, " b"]:
    """[B] for each row the rows of its group with a different finite reward: the pairs it is in (Eq. 3, all pairs).

    A row without a reward is in none.
    """
    known = ~np.isnan(rewards)
    counts = np.zeros(len(rewards), dtype=np.int64)
    if not known.any():
        return counts
    _, group = np.unique(groups[known], return_inverse=True)
    _, level = np.unique(rewards[known], return_inverse=True)
    _, cell, sizes = np.unique(np.stack([group, level]), axis=1, return_inverse=True, return_counts=True)
    counts[known] = np.bincount(group)[group] - sizes[cell.reshape(-1)]
    return counts


def rows_that_count(
    rewards: Float[np.ndarray, " b"], groups: Int[np.ndarray, " b"], known: Bool[np.ndarray, " b"]
) -> Bool[np.ndarray, " b"]:
    """[B] True for the rows of known truth that are in a pair."""
    return known & (pair_counts(rewards, groups) > 0)


def ranking(
    scores: Float[np.ndarray, " b"], corrupted: Bool[np.ndarray, " b"], counting: Bool[np.ndarray, " b"]
) -> Ranking:
    """How a score ranks the corrupted rows of one batch above the others; rows without a score are left out."""
    return Ranking(
        auroc(scores[counting], corrupted[counting]), average_precision(scores[counting], corrupted[counting])
    )


def tally(
    marked: Bool[np.ndarray, " b"],
    corrupted: Bool[np.ndarray, " b"],
    counting: Bool[np.ndarray, " b"],
    known: Bool[np.ndarray, " b"],
) -> Tally:
    """The counts of one batch."""
    return Tally(
        rows=_count(counting),
        corrupted=_count(counting & corrupted),
        marked=_count(known & marked),
        marked_corrupted=_count(known & marked & corrupted),
        found=_count(counting & marked & corrupted),
    )


def mean_ranking(rankings: Iterable[Ranking]) -> tuple[Ranking, int]:
    """The mean over the batches where the ranking is defined, and their number; NaN and 0 where there is none."""
    defined = [item for item in rankings if item.defined]
    if not defined:
        return Ranking(math.nan, math.nan), 0
    area = sum(item.auroc for item in defined) / len(defined)
    return Ranking(area, sum(item.average_precision for item in defined) / len(defined)), len(defined)


def _count(rows: NDArray[np.bool_]) -> int:
    return int(rows.sum())


GDI = "GDI"
MEAN_GDI = "mean GDI"
MOST_PAIRS = "pair count, many = suspect"
FEWEST_PAIRS = "pair count, few = suspect"
SCORES = (GDI, MEAN_GDI, MOST_PAIRS, FEWEST_PAIRS)


@dataclass(frozen=True, eq=False)
class StepDetection:
    """How one step's scores rank its flipped rewards: AUROC and average precision by name, NaN where undefined."""

    step: int
    auroc: dict[str, float]
    precision: dict[str, float]
    flips: int
    unscored_flips: int


@dataclass(frozen=True)
class DetectionRow:
    """A line of the table: the mean over steps with its t interval, and the number of steps behind it."""

    name: str
    auroc: Interval
    precision: Interval
    steps: int


@dataclass(frozen=True, eq=False)
class Detection:
    """Everything the detection section shows.

    `flags` counts flagged and flipped rollouts over all steps; `flag_precision` is their precision, Wilson's interval.
    `control` names the direction of the pair count that works better over the run, `gain` is the mean over steps of
    GDI's AUROC minus that control's, paired by step. `undefined` says why there is nothing, else it is empty.
    """

    steps: tuple[StepDetection, ...]
    rows: tuple[DetectionRow, ...]
    control: str
    gain: Interval
    flags: Tally
    flag_precision: Interval
    unscored_flips: int
    undefined: str


def pairs_used(rollouts: RolloutStep, details: Details | None) -> Ints:
    """[B] the pairs that each row's score was made of: counted in the details where there are some, else all pairs."""
    if details is None:
        return pair_counts(rollouts.reward, rollouts.group)
    rows = np.concatenate([details.winner, details.loser])
    index = {row: at for at, row in enumerate(rollouts.row.tolist())}
    counts = np.zeros(len(rollouts), dtype=np.int64)
    for row, number in zip(*np.unique(rows, return_counts=True), strict=True):
        if int(row) in index:
            counts[index[int(row)]] = number
    return counts


def sum_and_mean(rollouts: RolloutStep, aggregation: str, details: Details | None = None) -> tuple[Floats, Floats]:
    """[B] summed and mean GDI, whichever of the two the run's scores are; NaN where unscored."""
    pairs = pairs_used(rollouts, details).astype(np.float64)
    pairs[pairs == 0] = np.nan
    if aggregation == "mean":
        return rollouts.score * pairs, rollouts.score
    return rollouts.score, rollouts.score / pairs


def detect_step(rollouts: RolloutStep, aggregation: str, details: Details | None = None) -> StepDetection:
    """Ranks the rollouts of one step that are in a pair and whose truth is known by every score of `SCORES`."""
    summed, mean = sum_and_mean(rollouts, aggregation, details)
    pairs = pair_counts(rollouts.reward, rollouts.group).astype(np.float64)
    counting = rows_that_count(rollouts.reward, rollouts.group, rollouts.flip_known)
    scores = {GDI: summed, MEAN_GDI: mean, MOST_PAIRS: pairs, FEWEST_PAIRS: -pairs}
    rankings = {name: ranking(values, rollouts.flipped, counting) for name, values in scores.items()}
    flips = rollouts.flipped & rollouts.flip_known
    return StepDetection(
        step=rollouts.step,
        auroc={name: item.auroc for name, item in rankings.items()},
        precision={name: item.average_precision for name, item in rankings.items()},
        flips=int(flips.sum()),
        unscored_flips=int((flips & ~rollouts.scored).sum()),
    )


def flag_counts(rollouts: Sequence[RolloutStep]) -> Tally:
    """Counts flagged and flipped rollouts over all steps, among those known to be flipped or not."""
    counts = Tally()
    for step in rollouts:
        counting = rows_that_count(step.reward, step.group, step.flip_known)
        counts += tally(step.anomalous, step.flipped, counting, step.flip_known)
    return counts


def detect(run: Run, details: dict[int, Details]) -> Detection:
    """Detection over all steps of a run; `details` of any steps make their pair counts exact."""
    aggregation = str(run.curator.get("aggregation", "sum"))
    steps = tuple(detect_step(step, aggregation, details.get(step.step)) for step in run.rollouts)
    flags = flag_counts(run.rollouts)
    rows = []
    for name in SCORES:
        areas = np.array([step.auroc[name] for step in steps])
        precisions = np.array([step.precision[name] for step in steps])
        defined = int((~np.isnan(areas)).sum())
        rows.append(DetectionRow(name, mean_interval(areas), mean_interval(precisions), defined))
    areas_of = {row.name: row.auroc.estimate for row in rows}
    control = FEWEST_PAIRS if areas_of[FEWEST_PAIRS] > areas_of[MOST_PAIRS] else MOST_PAIRS
    return Detection(
        steps=steps,
        rows=tuple(rows),
        control=control,
        gain=mean_interval(np.array([step.auroc[GDI] - step.auroc[control] for step in steps])),
        flags=flags,
        flag_precision=wilson_interval(flags.marked_corrupted, flags.marked),
        unscored_flips=sum(step.unscored_flips for step in steps),
        undefined=_why_undefined(run, steps),
    )


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


def _why_undefined(run: Run, steps: Sequence[StepDetection]) -> str:
    no_scores = why_no_scores(run)
    if no_scores:
        return no_scores
    if not any(step.flip_known.any() for step in run.rollouts):
        return "Nothing says which rewards are wrong: this run records neither true rewards nor corrupted rows."
    if not any(step.flips for step in steps):
        return "No reward of this run was flipped (reward.flip is 0, or none was drawn), so there is nothing to find."
    if all(math.isnan(value) for step in steps for value in step.auroc.values()):
        return "No step has both a flipped and an unflipped rollout with a score, so nothing can be ranked."
    return ""
