"""How well scores and controls rank the rollouts whose reward was corrupted; numpy only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from geoalign.lab.analysis.detection import Ranking, Tally, mean_ranking, pair_counts, ranking, rows_that_count, tally

SCORES = ("score", "mean_score", "pair_count", "distance", "fewest_pairs")


@dataclass(frozen=True)
class Generation:
    """One curated batch of rollouts, row by row.

    Attributes:
        step: updates made before it was generated.
        corrupted: None where it is not known.
        replaced: rows that no longer stand for themselves: another is in their place, or their weight is 0.
    """

    step: int
    group: Int[np.ndarray, " b"]
    reward: Float[np.ndarray, " b"]
    true_reward: Float[np.ndarray, " b"]
    corrupted: Bool[np.ndarray, " b"] | None
    score: Float[np.ndarray, " b"]
    anomalous: Bool[np.ndarray, " b"]
    replaced: Bool[np.ndarray, " b"]


def scores_of(generation: Generation, *, mean_score: bool) -> dict[str, NDArray[np.float64]]:
    """Every score and control of a generation; NaN for rows in no pair, which nobody could rank.

    `score` is the curator's own; `mean_score` the same per pair (where it is a sum over pairs); `distance` |reward -
    group mean|; `pair_count` and `fewest_pairs` know nothing but how many rows of the group have another reward.
    """
    count = pair_counts(generation.reward, generation.group).astype(np.float64)
    count[count == 0] = np.nan
    distance = np.full(len(count), np.nan)
    for group in np.unique(generation.group):
        rows = (generation.group == group) & ~np.isnan(generation.reward)
        if rows.any():
            distance[rows] = np.abs(generation.reward[rows] - generation.reward[rows].mean())
    own = np.where(np.isnan(count), np.nan, generation.score)
    found = {
        "score": own,
        "pair_count": count,
        "distance": np.where(np.isnan(count), np.nan, distance),
        "fewest_pairs": -count,
    }
    if mean_score:
        found["mean_score"] = own / count
    return {name: found[name] for name in SCORES if name in found}


def detection(generations: Iterable[Generation], *, mean_score: bool) -> dict[str, Any]:
    """The detection quality of a whole run, as `geoalign.lab.analysis.detection` defines it; what is undefined is None.

    The precision is that of the replaced rows, and is not told where no row in a pair was corrupted.
    """
    rankings: dict[str, list[Ranking]] = {name: [] for name in SCORES}
    counts = Tally()
    for generation in generations:
        if generation.corrupted is None:
            continue
        known = np.ones(len(generation.corrupted), dtype=bool)
        counting = rows_that_count(generation.reward, generation.group, known)
        counts += tally(generation.replaced, generation.corrupted, counting, known)
        for name, values in scores_of(generation, mean_score=mean_score).items():
            rankings[name].append(ranking(values, generation.corrupted, counting))
    means = {name: mean_ranking(found) for name, found in rankings.items()}
    return {
        **{
            name: {"auroc": mean.auroc, "auprc": mean.average_precision, "generations": generations}
            for name, (mean, generations) in means.items()
            if generations
        },
        "precision_among_replaced": counts.precision if counts.marked and counts.corrupted else None,
        "base_rate": counts.base_rate if counts.rows else None,
    }


def snapshot(generation: Generation, *, mean_score: bool) -> dict[str, Any]:
    """The rows of one generation as lists, for rank plots and distributions."""
    scores = scores_of(generation, mean_score=mean_score)
    return {
        "step": generation.step,
        "score": scores["score"].tolist(),
        "mean_score": scores["mean_score"].tolist() if mean_score else None,
        "pair_count": pair_counts(generation.reward, generation.group).tolist(),
        "reward": generation.reward.tolist(),
        "corrupted": None if generation.corrupted is None else generation.corrupted.tolist(),
        "anomalous": generation.anomalous.tolist(),
    }
