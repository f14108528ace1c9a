"""From the folder of a finished run to the compact result that a comparison keeps of it; numpy only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from geoalign.lab.analysis.consensus import curation_seconds
from geoalign.lab.analysis.detection import Ranking, Tally, mean_ranking, pair_counts, ranking, rows_that_count, tally
from geoalign.lab.store.json_files import finite, read_lines
from geoalign.lab.store.rollouts import RolloutStep, read_rollouts
from geoalign.lab.store.run_folder import RunFolder

SCORES = ("score", "mean_score", "pair_count", "distance", "fewest_pairs")
SNAPSHOTS = 5
# Entry of the result -> metric of the log.
_SERIES = {
    "reward": "reward",
    "ppo_kl": "ppo_kl",
    "clip_fraction": "clip_ratio/region_mean",
    "mean_abs_advantage": "mean_abs_advantage",
    "pairs": "geoalign/pairs",
    "anomalous": "geoalign/anomalous",
    "replaced": "geoalign/replaced",
    "new_group_accuracy": "geoalign/new_group_accuracy",
    "new_group_accuracy_low": "geoalign/new_group_accuracy_low",
    "heldout_pair_accuracy": "geoalign/heldout_pair_accuracy",
    "advantage_cosine": "geoalign/advantage_cosine",
    "observed_advantage_cosine": "geoalign/observed_advantage_cosine",
    "train_accuracy": "geoalign/train_accuracy",
    "hidden_seconds": "geoalign/hidden_seconds",
    "step_seconds": "step_time",
}
# Left out where the log has none of it, because not every version of the trainer or curator logs it.
_OPTIONAL = ("mean_abs_advantage", "hidden_seconds", "advantage_cosine", "observed_advantage_cosine")


def extract(folder: RunFolder, curator: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a finished run, read from its own files alone.

    Args:
        folder: the run's folder.
        curator: its resolved settings, `type` included.

    Returns:
        `evaluations`, `series`, `detection`, `snapshots`, `seconds_per_step`.
    """
    lines = [line for line in read_lines(folder.metrics) if line.get("stage") == "rl"]
    generations = read_generations(folder.rollouts)
    mean_score = sums_over_pairs(curator)
    seconds = [line["step_time"] for line in lines if isinstance(line.get("step_time"), (int, float))]
    return rounded(
        {
            "curator": curator["type"],
            "settings": {name: value for name, value in curator.items() if name != "type"},
            "evaluations": read_lines(folder.evaluation),
            "series": series(lines, generations),
            "detection": detection(generations, mean_score=mean_score),
            "snapshots": [snapshot(generation, mean_score=mean_score) for generation in spread(generations, SNAPSHOTS)],
            "seconds_per_step": sum(seconds) / len(seconds) if seconds else None,
        }
    )


def sums_over_pairs(curator: Mapping[str, Any]) -> bool:
    """True where a curator's score is a sum over all pairs of a rollout, so that dividing by their number says
    something: GeoAlign with aggregation "sum" and no restriction to the best and worst, unless it is signed."""
    summed = curator.get("aggregation") == "sum" and curator.get("top_m") is None
    return summed and not curator.get("signed", False)


def series(lines: Iterable[Mapping[str, Any]], generations: Iterable[Generation]) -> dict[str, list[Any]]:
    """The logged metrics of the RL stage as columns, None where a line lacks one.

    `true_reward` is the mean reward of a generation before corruption, at the first line after it was generated.
    `curation_seconds` is what the curator added to a step: its own seconds and those of its pass for hidden states; 0
    in the further updates on one generation, which curate nothing.
    """
    lines = list(lines)
    columns: dict[str, list[Any]] = {"step": [line["step"] for line in lines]}
    for name, key in _SERIES.items():
        values = [line.get(key) for line in lines]
        if name in _OPTIONAL and all(value is None for value in values):
            continue
        columns[name] = values
    columns["curation_seconds"] = _added_seconds(lines)
    columns["true_reward"] = _true_rewards(columns["step"], generations)
    return columns


def _added_seconds(lines: list[Mapping[str, Any]]) -> list[float | None]:
    seconds = [curation_seconds(line) for line in lines]
    return [value or 0.0 for value in seconds] if any(value is not None for value in seconds) else [None] * len(lines)


def _true_rewards(steps: list[int], generations: Iterable[Generation]) -> list[float | None]:
    means: list[list[float]] = [[] for _ in steps]
    for generation in generations:
        known = generation.true_reward[~np.isnan(generation.true_reward)]
        at = next((index for index, step in enumerate(steps) if step > generation.step), None)
        if at is not None and len(known):
            means[at].append(float(known.mean()))
    return [sum(rewards) / len(rewards) if rewards else None for rewards in means]


def read_generations(rollouts: Path) -> list[Generation]:
    """The curated batches of a run in their order."""
    return [generation_of(step) for step in read_rollouts(rollouts)]


def generation_of(rollouts: RolloutStep) -> Generation:
    """One batch as a run wrote it.

    A row is replaced where its source is another row, or none, or where its weight is 0 although its reward is
    known.
    """
    elsewhere = rollouts.source != np.arange(len(rollouts))
    return Generation(
        step=rollouts.step,
        group=rollouts.group,
        reward=rollouts.reward,
        true_reward=rollouts.true_reward,
        corrupted=rollouts.flipped if rollouts.flip_known.all() else None,
        score=rollouts.score,
        anomalous=rollouts.anomalous,
        replaced=elsewhere | ((rollouts.weight == 0) & ~np.isnan(rollouts.reward)),
    )


def spread(generations: list[Generation], count: int) -> list[Generation]:
    """At most `count` generations, evenly spread from the first to the last."""
    if not generations:
        return []
    indices = np.linspace(0, len(generations) - 1, min(count, len(generations)))
    return [generations[index] for index in indices.round().astype(int)]


def rounded(value: Any) -> Any:
    """The same with every float at six significant digits, and NaN as None: compact, and far below any noise."""
    if isinstance(value, float):
        known: float | None = finite(value)
        return None if known is None else float(f"{known:.6g}")
    if isinstance(value, Mapping):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return value


# How well scores and controls rank the rollouts whose reward was corrupted.


@dataclass(frozen=True)
class Generation:
    """One curated batch of rollouts, row by row.

    Attributes:
        step: updates made before it was generated.
        corrupted: None where it is not known.
        replaced: rows whose source is another row, or none, or whose weight is 0.
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
    scores = {
        "score": own,
        "pair_count": count,
        "distance": np.where(np.isnan(count), np.nan, distance),
        "fewest_pairs": -count,
    }
    if mean_score:
        scores["mean_score"] = own / count
    return {name: scores[name] for name in SCORES if name in scores}


def detection(generations: Iterable[Generation], *, mean_score: bool) -> dict[str, Any]:
    """The detection quality of a whole run, as `geoalign.lab.analysis.detection` defines it; what is undefined is None.

    The precision is that of the replaced rows, and is None where no row in a pair was corrupted.
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
    means = {name: mean_ranking(ranked) for name, ranked in rankings.items()}
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
