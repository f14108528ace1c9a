"""From the folder of a finished run to the compact result that a comparison keeps of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from geoalign.lab.analysis.cost import curation_seconds
from geoalign.lab.compare.detection import Generation, detection, snapshot
from geoalign.lab.store.json_files import finite, read_lines
from geoalign.lab.store.rollouts import RolloutStep, read_rollouts
from geoalign.lab.store.run_folder import RunFolder

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
    something: GeoAlign with aggregation "sum" and no restriction to the best and worst."""
    return curator.get("aggregation") == "sum" and curator.get("top_m") is None


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
    found = [curation_seconds(line) for line in lines]
    return [value or 0.0 for value in found] if any(value is not None for value in found) else [None] * len(lines)


def _true_rewards(steps: list[int], generations: Iterable[Generation]) -> list[float | None]:
    means: list[list[float]] = [[] for _ in steps]
    for generation in generations:
        known = generation.true_reward[~np.isnan(generation.true_reward)]
        at = next((place for place, step in enumerate(steps) if step > generation.step), None)
        if at is not None and len(known):
            means[at].append(float(known.mean()))
    return [sum(found) / len(found) if found else None for found in means]


def read_generations(rollouts: Path) -> list[Generation]:
    """The curated batches of a run in their order."""
    return [generation_of(step) for step in read_rollouts(rollouts)]


def generation_of(rollouts: RolloutStep) -> Generation:
    """One batch as a run wrote it.

    A row is replaced where another row stands in its place, or none, or where its weight is 0 although its reward is
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
    places = np.linspace(0, len(generations) - 1, min(count, len(generations)))
    return [generations[place] for place in places.round().astype(int)]


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
