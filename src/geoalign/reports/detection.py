"""Do the scores find flipped rewards? Ranking per step, against the pair count alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from geoalign.reports.run import Details, Floats, Ints, RolloutStep, Run
from geoalign.statistics import Interval, auroc, average_precision, mean_interval, wilson_interval

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


@dataclass(frozen=True)
class FlagQuality:
    """Among rollouts known to be flipped or not: flagged ones, flipped ones, and both, over all steps.

    `precision` has Wilson's interval, `base_rate` is the share of flips among scored rollouts, `recall` the share of
    the scored flips that was flagged; NaN where undefined.
    """

    flagged: int
    flagged_flips: int
    scored: int
    scored_flips: int

    @property
    def precision(self) -> Interval:
        return wilson_interval(self.flagged_flips, self.flagged)

    @property
    def base_rate(self) -> float:
        return self.scored_flips / self.scored if self.scored else math.nan

    @property
    def recall(self) -> float:
        return self.flagged_flips / self.scored_flips if self.scored_flips else math.nan


@dataclass(frozen=True, eq=False)
class Detection:
    """Everything the detection section shows.

    `control` names the direction of the pair count that works better over the run, `gain` is the mean over steps of
    GDI's AUROC minus that control's, paired by step. `undefined` says why there is nothing, else it is empty.
    """

    steps: tuple[StepDetection, ...]
    rows: tuple[DetectionRow, ...]
    control: str
    gain: Interval
    flags: FlagQuality
    unscored_flips: int
    undefined: str


def pair_counts(rewards: Floats, groups: Ints) -> Ints:
    """[B] for each row the rows of its group with a different finite reward: the pairs it is in (Eq. 3, all pairs).

    A row without a reward is in none.
    """
    finite = ~np.isnan(rewards)
    counts = np.zeros(len(rewards), dtype=np.int64)
    if not finite.any():
        return counts
    _, group = np.unique(groups[finite], return_inverse=True)
    _, level = np.unique(rewards[finite], return_inverse=True)
    _, cell, sizes = np.unique(np.stack([group, level]), axis=1, return_inverse=True, return_counts=True)
    counts[finite] = np.bincount(group)[group] - sizes[cell.reshape(-1)]
    return counts


def pairs_used(rollouts: RolloutStep, details: Details | None) -> Ints:
    """[B] the pairs that each row's score was made of: counted in the details where there are some, else all pairs."""
    if details is None:
        return pair_counts(rollouts.reward, rollouts.group)
    rows = np.concatenate([details.winner, details.loser])
    place = {row: at for at, row in enumerate(rollouts.row.tolist())}
    counts = np.zeros(len(rollouts), dtype=np.int64)
    for row, number in zip(*np.unique(rows, return_counts=True), strict=True):
        if int(row) in place:
            counts[place[int(row)]] = number
    return counts


def sum_and_mean(rollouts: RolloutStep, aggregation: str, details: Details | None = None) -> tuple[Floats, Floats]:
    """[B] summed and mean GDI, whichever of the two the run's scores are; NaN where unscored."""
    pairs = pairs_used(rollouts, details).astype(np.float64)
    pairs[pairs == 0] = np.nan
    if aggregation == "mean":
        return rollouts.score * pairs, rollouts.score
    return rollouts.score, rollouts.score / pairs


def detect_step(rollouts: RolloutStep, aggregation: str, details: Details | None = None) -> StepDetection:
    """Ranks the scored rollouts of one step by every score of `SCORES`; rows of unknown truth stay out."""
    summed, mean = sum_and_mean(rollouts, aggregation, details)
    use = rollouts.scored & rollouts.flip_known
    pairs = pair_counts(rollouts.reward, rollouts.group)[use].astype(np.float64)
    scores = {GDI: summed[use], MEAN_GDI: mean[use], MOST_PAIRS: pairs, FEWEST_PAIRS: -pairs}
    flipped = rollouts.flipped[use]
    flips = rollouts.flipped & rollouts.flip_known
    return StepDetection(
        step=rollouts.step,
        auroc={name: auroc(values, flipped) for name, values in scores.items()},
        precision={name: average_precision(values, flipped) for name, values in scores.items()},
        flips=int(flips.sum()),
        unscored_flips=int((flips & ~rollouts.scored).sum()),
    )


def flag_quality(rollouts: Sequence[RolloutStep]) -> FlagQuality:
    """Counts flagged and flipped rollouts over all steps, among those known to be flipped or not."""
    known = [(step, step.flip_known) for step in rollouts]
    return FlagQuality(
        flagged=sum(int((step.anomalous & use).sum()) for step, use in known),
        flagged_flips=sum(int((step.anomalous & use & step.flipped).sum()) for step, use in known),
        scored=sum(int((step.scored & use).sum()) for step, use in known),
        scored_flips=sum(int((step.scored & use & step.flipped).sum()) for step, use in known),
    )


def detect(run: Run, details: dict[int, Details]) -> Detection:
    """Detection over all steps of a run; `details` of any steps make their pair counts exact."""
    aggregation = str(run.curator.get("aggregation", "sum"))
    steps = tuple(detect_step(step, aggregation, details.get(step.step)) for step in run.rollouts)
    rows = []
    for name in SCORES:
        areas = np.array([step.auroc[name] for step in steps])
        precisions = np.array([step.precision[name] for step in steps])
        defined = int((~np.isnan(areas)).sum())
        rows.append(DetectionRow(name, mean_interval(areas), mean_interval(precisions), defined))
    found = {row.name: row.auroc.estimate for row in rows}
    control = FEWEST_PAIRS if found[FEWEST_PAIRS] > found[MOST_PAIRS] else MOST_PAIRS
    return Detection(
        steps=steps,
        rows=tuple(rows),
        control=control,
        gain=mean_interval(np.array([step.auroc[GDI] - step.auroc[control] for step in steps])),
        flags=flag_quality(run.rollouts),
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
