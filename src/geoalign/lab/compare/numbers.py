"""A comparison as one long frame, a row for each number, and the numbers of each run that are compared.

The columns are `level`, `arm` and `seed`, then those of one run (`geoalign.lab.runs.numbers`): `set`, `stage`, `step`,
`metric` and `value`. Numbers of a run as a whole have the stage "run" and step 0. Everything that a comparison shows is
a filter of this frame, a pivot, or a function of two of its series.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from pandas import DataFrame, MultiIndex, Series

from geoalign.files.columns import Floats, Ints
from geoalign.lab.compare.results import OF_RUN, WHOLE_RUN, RunResult
from geoalign.lab.compare.settings import CompareConfig
from geoalign.lab.runs.numbers import AFTER, APPLIED, BEFORE, COLUMNS, OBSERVED, PASS_AT, RL
from geoalign.statistics import largest_drop, oscillation

# What tells one run from another.
RUN = ["level", "arm", "seed"]
# The numbers that tables compare, in the order of table.csv:
# - the final score by the comparison's metric, by the reward, by the gold reward, and the deepest fall of the latter;
# - how much the evaluation curve goes up and down, and its deepest fall;
# - KL and clip fraction over the generations of a run, each the mean of its updates;
# - accuracies of the projector, mean over steps;
# - cosines of the advantages with those of the true rewards, as applied and as the rewards came, mean over steps;
# - rollouts replaced per generation; what the curator adds to a step in seconds, and as a share of the step; the peak
#   memory of the process in bytes, whose difference to the baseline is what the curator added.
MEASURES = [
    "score", "reward", "gold", "gold_drop", "oscillation", "largest_drop", "kl_mean", "kl_median", "clip_mean",
    "clip_median", "new_group_accuracy", "heldout_accuracy", APPLIED, OBSERVED, "replaced", "curation_seconds",
    "curation_share", "memory",
]  # fmt: skip

# Logged numbers of which a run's mean over steps is compared.
_LOGGED = ["new_group_accuracy", "heldout_pair_accuracy", APPLIED, OBSERVED, "replaced", "curation_seconds"]


def long_frame(results: Iterable[RunResult]) -> DataFrame:
    """The numbers of all finished runs, one row a number; what is not known has no row."""
    rows = []
    for result in results:
        if result.finished:
            run = (result.level, result.arm, result.seed)
            rows += [(*run, *row) for row in result.rows if not math.isnan(row[-1])]
    return DataFrame(rows, columns=[*RUN, *COLUMNS])


# --- series of the frame ----------------------------------------------------------------------------------------------


def arm_evaluation_curves(numbers: DataFrame, metric: str, *, before: bool = True) -> Series:
    """A metric of the evaluations by run and step, unweighted mean over the evaluation sets of the run.

    The evaluation before RL is at step 0, and left out without `before`. Of several evaluations of a set at one step
    the last counts, which is the one after RL. A step that lacks a set is left out, so that no jump comes from another
    choice of sets; sets without the metric are no sets.
    """
    found = numbers[(numbers.metric == metric) & (numbers.set != "")]
    if not before:
        found = found[found.stage != BEFORE]
    found = found.drop_duplicates([*RUN, "step", "set"], keep="last")
    sets = found.groupby(RUN)["set"].transform("nunique")
    sets_at_step = found.groupby([*RUN, "step"])["set"].transform("size")
    return found[sets_at_step == sets].groupby([*RUN, "step"]).value.mean()


def logged_curves(numbers: DataFrame, metric: str) -> Series:
    """A logged number by run and step."""
    found = numbers[(numbers.metric == metric) & (numbers.stage == RL) & (numbers.set == "")]
    return found.groupby([*RUN, "step"]).value.mean()


def curves_of_arm(curves: Series, level: str, arm: str) -> tuple[Ints, Floats]:
    """The curves of an arm's seeds at a level: steps, and values [seeds, steps], NaN where a seed lacks a step."""
    found = curves[(curves.index.get_level_values("level") == level) & (curves.index.get_level_values("arm") == arm)]
    if found.empty:
        return np.empty(0, dtype=np.int64), np.empty((0, 0))
    by_seed = found.droplevel(["level", "arm"]).unstack("step")
    by_seed = by_seed.sort_index(axis="columns")
    return by_seed.columns.to_numpy(np.int64), by_seed.to_numpy(np.float64)


def final_scores(curves: Series, last: int) -> Series:
    """The mean of the last evaluations of each curve, of `arm_evaluation_curves` without that before RL."""
    return curves.groupby(RUN).tail(last).groupby(RUN).mean()


def arm_pass_at_k(numbers: DataFrame) -> DataFrame:
    """pass@k by run, of the last evaluation that measured it: a column for each k, unweighted mean over its sets.

    The columns are called `pass@K`; NaN for a K that some set of that evaluation lacks.
    """
    found = numbers[numbers.metric.str.startswith(PASS_AT) & (numbers.stage != BEFORE)]
    found = found[found.step == found.groupby(RUN).step.transform("max")]
    found = found.assign(after=found.stage == AFTER)
    found = found[found.after == found.groupby([*RUN, "set"]).after.transform("any")]
    sets = found.groupby(RUN)["set"].transform("nunique")
    with_metric = found.groupby([*RUN, "metric"])["set"].transform("nunique")
    return found[with_metric == sets].pivot_table(index=RUN, columns="metric", values="value", aggfunc="mean")


def by_generation(curves: Series, updates: Series) -> Series:
    """The mean over the updates made on each generation, by run and generation.

    The first update has KL and clip fraction 0 by construction, which would decide a median over single updates. Where
    the number of updates is not known, or no whole number, each update stands for itself.
    """
    frame = curves.rename("value").reset_index()
    size = updates.reindex(MultiIndex.from_frame(frame[RUN])).to_numpy(np.float64)
    size = np.where(np.isnan(size) | (size != np.floor(size)), 1, size)
    frame["generation"] = (frame.step - 1) // size
    return frame.groupby([*RUN, "generation"]).value.mean()


# --- what is compared -------------------------------------------------------------------------------------------------


def numbers_by_run(numbers: DataFrame, plan: CompareConfig) -> DataFrame:
    """The numbers of every finished run as columns, NaN where unknown.

    These are the `MEASURES`, `pass@K`, the numbers of the run as a whole, and two that explain the measures:
    `evaluations`, those that the final score is of, and `updates`, those made on each generation, as the result says,
    else by the plan for its level and arm.
    """
    runs = MultiIndex.from_frame(numbers[RUN].drop_duplicates())
    whole = numbers[numbers.stage == WHOLE_RUN].pivot_table(index=RUN, columns="metric", values="value")
    whole = whole.reindex(index=runs, columns=whole.columns.union(list(OF_RUN)))
    planned = Series([plan.updates_per_generation(level, arm) for level, arm, _ in runs], index=runs, dtype=float)
    updates = whole["updates_per_generation"].fillna(planned)
    curve = arm_evaluation_curves(numbers, plan.metric)
    gold = arm_evaluation_curves(numbers, "gold_utility")
    scored = arm_evaluation_curves(numbers, plan.metric, before=False)
    kl = by_generation(logged_curves(numbers, "ppo_kl"), updates).groupby(RUN)
    clip = by_generation(logged_curves(numbers, "clip_fraction"), updates).groupby(RUN)
    log = numbers[(numbers.stage == RL) & (numbers.set == "")]
    logged = log.groupby([*RUN, "metric"]).value.mean().unstack("metric").reindex(index=runs, columns=_LOGGED)
    step_seconds = whole["seconds_per_step"]
    columns = {
        "score": final_scores(scored, plan.last_evaluations),
        "reward": final_scores(arm_evaluation_curves(numbers, "reward", before=False), plan.last_evaluations),
        "gold": final_scores(arm_evaluation_curves(numbers, "gold_utility", before=False), plan.last_evaluations),
        "gold_drop": gold.groupby(RUN).agg(largest_drop),
        "oscillation": curve.groupby(RUN).agg(lambda run: oscillation(run, run.index.get_level_values("step"))),
        "largest_drop": curve.groupby(RUN).agg(largest_drop),
        "kl_mean": kl.mean(),
        "kl_median": kl.median(),
        "clip_mean": clip.mean(),
        "clip_median": clip.median(),
        "new_group_accuracy": logged["new_group_accuracy"],
        "heldout_accuracy": logged["heldout_pair_accuracy"],
        APPLIED: logged[APPLIED],
        OBSERVED: logged[OBSERVED],
        "replaced": logged["replaced"],
        "curation_seconds": logged["curation_seconds"],
        "curation_share": logged["curation_seconds"] / step_seconds[step_seconds > 0],
        "memory": whole["peak_memory_bytes"],
        "evaluations": scored.groupby(RUN).size().clip(upper=plan.last_evaluations),
        "updates": updates,
    }
    return DataFrame(columns, index=runs).join(arm_pass_at_k(numbers)).join(whole)
