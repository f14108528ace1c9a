"""How well scores and controls rank the rollouts whose reward was corrupted; numpy only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from geoalign.statistics.ranking import auroc, average_precision

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


def pair_counts(reward: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.int64]:
    """[b] in how many pairs each row stands: rows of its group with another reward. A NaN reward forms no pair."""
    known = ~np.isnan(reward)
    same_group = group[:, None] == group[None, :]
    differs = reward[:, None] != reward[None, :]
    return (same_group & differs & known[:, None] & known[None, :]).sum(axis=1)


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
    """The detection quality of a whole run.

    AUROC and AUPRC are taken within each generation and averaged over the generations that hold scored rows of both
    kinds; the precision among replaced rows and the base rate (the share of corrupted rows among those in a pair) are
    taken over all rows of the run. A value that is undefined is None.
    """
    areas: dict[str, list[tuple[float, float]]] = {name: [] for name in SCORES}
    replaced = replaced_corrupted = rows = corrupted_rows = 0
    for generation in generations:
        if generation.corrupted is None:
            continue
        scores = scores_of(generation, mean_score=mean_score)
        paired = ~np.isnan(scores["pair_count"])
        rows += int(paired.sum())
        corrupted_rows += int((paired & generation.corrupted).sum())
        replaced += int(generation.replaced.sum())
        replaced_corrupted += int((generation.replaced & generation.corrupted).sum())
        for name, values in scores.items():
            area = auroc(values, generation.corrupted)
            if not math.isnan(area):
                areas[name].append((area, average_precision(values, generation.corrupted)))
    return {
        **{name: _averaged(found) for name, found in areas.items() if found},
        "precision_among_replaced": replaced_corrupted / replaced if replaced and corrupted_rows else None,
        "base_rate": corrupted_rows / rows if rows else None,
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


def _averaged(areas: list[tuple[float, float]]) -> Mapping[str, float | int]:
    return {
        "auroc": sum(area for area, _ in areas) / len(areas),
        "auprc": sum(precision for _, precision in areas) / len(areas),
        "generations": len(areas),
    }
