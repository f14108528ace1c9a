"""The numbers of one run as one long frame: what `geoalign train` prints, its page shows and a comparison keeps.

One row is one number. Its columns:

- `set`: the evaluation set; empty for what is not of an evaluation.
- `stage`: "before_rl", "rl" or "after_rl" for an evaluation, "rl" for a line of the log, "generation" for what the
  rollouts of one generation show.
- `step`: updates made until then.
- `metric`: its name. A logged metric has no "geoalign/" before it.
- `value`: never NaN; what is not known has no row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas
from pandas import DataFrame

from geoalign.files.columns import Series, whole_text
from geoalign.intervals import Interval, mean_interval
from geoalign.lab.runs.generations import generation_numbers
from geoalign.lab.runs.reading import Evaluation, Run, accuracy_of_evaluation
from geoalign.statistics import without_nan

COLUMNS = ["set", "stage", "step", "metric", "value"]
# Stages.
BEFORE = "before_rl"
RL = "rl"
AFTER = "after_rl"
GENERATION = "generation"
# Of the advantages with those of the true rewards: as they were applied, and as the rewards came.
APPLIED, OBSERVED = "advantage_cosine", "observed_advantage_cosine"
# What the curator itself takes, and its pass for hidden states.
CURATION_SECONDS = ("seconds", "hidden_seconds")
# What an evaluation may know, beside pass@k.
EVALUATED = ["accuracy", "accuracy_low", "accuracy_high", "correct", "answers", "reward", "gold_utility"]
PASS_AT = "pass@"
_PREFIX = "geoalign/"
_RENAMED = {"clip_ratio/region_mean": "clip_fraction"}

# Set, stage, step, metric and value.
Row = tuple[str, str, int, str, float]


def numbers_of(run: Run) -> DataFrame:
    """All numbers of a run, finished or not."""
    rows: list[Row] = []
    for evaluation in run.evaluations:
        rows += evaluation_rows(evaluation)
    for line in run.metrics:
        if line.stage == RL:
            rows += [("", RL, line.step, metric_name(key), value) for key, value in line.values.items()]
    for generation in run.rollouts:
        for name, value in generation_numbers(generation).items():
            rows.append(("", GENERATION, generation.step, name, value))
    return numbers_frame(rows)


def numbers_frame(rows: Iterable[Row]) -> DataFrame:
    """The long frame of these rows; those whose value is NaN are left out."""
    return DataFrame([row for row in rows if not math.isnan(row[-1])], columns=COLUMNS)


def metric_name(key: str) -> str:
    """The name of a metric in the frame, from its key in the log."""
    return _RENAMED.get(key, key.removeprefix(_PREFIX))


def evaluation_rows(evaluation: Evaluation) -> list[Row]:
    """The numbers of one line of `evaluation.jsonl`; one before RL is at step 0."""
    values = {"accuracy": evaluation.accuracy}
    interval = accuracy_of_evaluation(evaluation)
    if interval is not None:
        values |= {"accuracy_low": interval.low, "accuracy_high": interval.high}
    if evaluation.correct is not None:
        values["correct"] = evaluation.correct
    values |= {"answers": evaluation.count, "reward": evaluation.reward, "gold_utility": evaluation.gold_utility}
    values |= {f"{PASS_AT}{k}": value for k, value in evaluation.pass_at_k.items()}
    step = 0 if evaluation.stage == BEFORE else evaluation.step
    # A column of a frame cannot hold half of a pair of surrogates.
    of_set = whole_text(evaluation.set)
    return [(of_set, evaluation.stage, step, name, float(value)) for name, value in values.items()]


# --- what is read off the frame ---------------------------------------------------------------------------------------


def series_of(numbers: DataFrame, metric: str, stage: str = RL) -> Series:
    """A number of the log, or of the generations, over steps; of several at one step the last counts."""
    found = numbers[(numbers.metric == metric) & (numbers.stage == stage) & (numbers.set == "")]
    found = found.drop_duplicates("step", keep="last").sort_values("step")
    return Series(found.step.to_numpy(np.int64), found.value.to_numpy(np.float64))


def totals_of(numbers: DataFrame) -> pandas.Series:
    """The sum of each number of the generations of a run, by metric."""
    return numbers[numbers.stage == GENERATION].groupby("metric").value.sum()


def evaluations_of(numbers: DataFrame) -> DataFrame:
    """A row for each evaluation by set, step and stage, with a column for each metric; NaN where it is not known."""
    found = numbers[numbers.set != ""]
    keys = ["set", "step", "stage"]
    wide = found.pivot_table(index=keys, columns="metric", values="value", aggfunc="last")
    return wide.reindex(columns=wide.columns.union(EVALUATED, sort=False)).reset_index()


def by_set(numbers: DataFrame, metric: str, stage: str) -> dict[str, float]:
    """A number of the evaluations of a stage by set; of several evaluations the last."""
    found = numbers[(numbers.metric == metric) & (numbers.stage == stage) & (numbers.set != "")]
    return dict(zip(found.set, found.value.tolist(), strict=True))


def accuracy_on_new_groups(numbers: DataFrame, last: int = 0) -> Interval:
    """How often the projector orders pairs of untrained groups rightly, over the `last` steps (0: all).

    The mean over steps with Student's t interval, steps taken as independent; one step has its own interval over
    groups.
    """
    values = series_of(numbers, "new_group_accuracy").values[-last:]
    if len(values) != 1:
        return mean_interval(values)
    low = series_of(numbers, "new_group_accuracy_low").values
    high = series_of(numbers, "new_group_accuracy_high").values
    if not len(low) or not len(high):
        return Interval(float(values[0]), np.nan, np.nan)
    return Interval(float(values[0]), float(low[-1]), float(high[-1]))


@dataclass(frozen=True)
class Agreement:
    """Mean cosines with the advantages of the true rewards over `generations`, with Student's t intervals: of the
    advantages as applied, and of those of the rewards as they came, which GRPO would have been trained with."""

    applied: Interval
    observed: Interval
    generations: int


def agreement_over_run(numbers: DataFrame) -> Agreement:
    """How close a run's advantages came to those of the true rewards; NaN where these are not known."""
    applied = series_of(numbers, APPLIED).values
    observed = series_of(numbers, OBSERVED).values
    return Agreement(
        applied=mean_interval(applied), observed=mean_interval(observed), generations=len(without_nan(applied))
    )


def curation_seconds(numbers: DataFrame) -> Series:
    """What the curator added to each update in seconds; 0 in further updates on a generation, which curate nothing.

    Empty where no update has logged any.
    """
    log = numbers[(numbers.stage == RL) & (numbers.set == "")]
    added = log[log.metric.isin(CURATION_SECONDS)].groupby("step").value.sum()
    if added.empty:
        return Series(np.empty(0, dtype=np.int64), np.empty(0))
    steps = np.unique(log.step.to_numpy(np.int64))
    return Series(steps, added.reindex(steps, fill_value=0.0).to_numpy(np.float64))


def true_rewards(numbers: DataFrame) -> Mapping[int, float]:
    """The mean reward of each generation before corruption, by the first step that was logged after it was made."""
    log = numbers[(numbers.stage == RL) & (numbers.set == "")]
    steps = np.unique(log.step.to_numpy(np.int64))
    generations = series_of(numbers, "true_reward", GENERATION)
    places = np.searchsorted(steps, generations.steps, side="right")
    by_step: dict[int, list[float]] = {}
    for place, value in zip(places, generations.values.tolist(), strict=True):
        if place < len(steps):
            by_step.setdefault(int(steps[place]), []).append(value)
    return {step: float(np.mean(values)) for step, values in by_step.items()}
