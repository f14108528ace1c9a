"""How well a finished run's scores and flags find its corrupted rewards, step by step and over the run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from geoalign.lab.analysis.detection import Tally, pair_counts, ranking, rows_that_count, tally
from geoalign.lab.analysis.statistics import Interval, mean_interval, wilson_interval
from geoalign.lab.store.rollouts import Details
from geoalign.lab.store.run import Floats, Ints, RolloutStep, Run

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
