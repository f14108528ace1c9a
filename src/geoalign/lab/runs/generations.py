"""What the rollouts of one generation show: counts, mean rewards, and how its scores rank corrupted rewards.

A row *counts* where it is known whether its reward was corrupted and it is in a pair: its group holds another reward.
"""

from __future__ import annotations

import math

import numpy as np

from geoalign.files.columns import Bools, Floats
from geoalign.files.rollout_step import RolloutStep
from geoalign.statistics import auroc, average_precision, mean, pair_counts

# Scores and controls that are looked at, in the order of the tables, and what pages call them.
SCORES = {
    "score": "the curator's score",
    "pair_count": "number of pairs",
    "fewest_pairs": "number of pairs, fewest first",
    "distance": "distance to the group's mean",
}
OWN_SCORE = "score"
# What a row may be marked by, as the metrics of a generation call it.
FLAGGED, CHANGED = "flagged", "changed"


def generation_numbers(step: RolloutStep) -> dict[str, float]:
    """What the rollouts of one generation show, by metric; NaN where unknown.

    - `reward`, `curated_reward`, `true_reward`: means as the verifier gave it, after curation, before corruption.
    - `rollouts`, `scored`, `flagged`, `replaced`: numbers of rows.
    - `known`, `wrong`: rows of known truth, and the corrupted ones among them; `unscored_wrong`: without a score.
    - `in_pair`, `in_pair_wrong`: the rows that count (see this module), and the corrupted ones among them.
    - `flagged_known`, `flagged_wrong`, `flagged_found`: flagged rows of known truth, the corrupted ones among them, and
      those of these that are in a pair. The same with `changed`: rows that were replaced or left out.
    - `auroc/NAME`, `auprc/NAME`: AUROC and average precision of each of `SCORES` over the rows that count; neither is
      defined where rows of one kind alone have a score.
    """
    wrong = step.flip_known & step.flipped
    counts = step.flip_known & (pair_counts(step.reward, step.group) > 0)
    numbers = {
        "reward": mean(step.reward),
        "curated_reward": mean(curated_rewards(step)),
        "true_reward": mean(step.true_reward),
        "rollouts": len(step),
        "scored": step.scored.sum(),
        "flagged": step.anomalous.sum(),
        "replaced": step.replaced.sum(),
        "known": step.flip_known.sum(),
        "wrong": wrong.sum(),
        "unscored_wrong": (wrong & ~step.scored).sum(),
        "in_pair": counts.sum(),
        "in_pair_wrong": (counts & wrong).sum(),
    }
    for name, marked in ((FLAGGED, step.anomalous), (CHANGED, changed_rows(step))):
        numbers[f"{name}_known"] = (marked & step.flip_known).sum()
        numbers[f"{name}_wrong"] = (marked & wrong).sum()
        numbers[f"{name}_found"] = (marked & wrong & counts).sum()
    for name, scores in scores_of(step).items():
        area = auroc(scores[counts], step.flipped[counts])
        numbers[f"auroc/{name}"] = area
        if not math.isnan(area):
            numbers[f"auprc/{name}"] = average_precision(scores[counts], step.flipped[counts])
    return {name: float(value) for name, value in numbers.items()}


def curated_rewards(step: RolloutStep) -> Floats:
    """[B] reward of the content of each row after curation; NaN where there is none or its weight is 0."""
    place = {row: at for at, row in enumerate(step.row.tolist())}
    rewards = [step.reward[place[source]] if source in place else np.nan for source in step.source.tolist()]
    return np.where(step.weight == 0, np.nan, np.array(rewards, dtype=np.float64))


def changed_rows(step: RolloutStep) -> Bools:
    """[B] rows whose source is another row, or none, or whose weight is 0 although their reward is known."""
    return (step.source != step.row) | ((step.weight == 0) & ~np.isnan(step.reward))


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
