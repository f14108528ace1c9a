"""From the folder of a finished run to the compact result that a comparison keeps of it; numpy only."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from geoalign.files.columns import Bools
from geoalign.files.json_files import finite, read_lines
from geoalign.files.rollout_step import RolloutStep
from geoalign.lab.runs.detection import OWN_SCORE, SCORES, Tally, mean_ranking, rankings_of, tally_of
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.runs.logged import APPLIED, OBSERVED, curation_seconds
from geoalign.lab.runs.rollouts import read_rollouts
from geoalign.statistics import mean

SNAPSHOTS = 5
# Entry of the result -> metric of the log.
_SERIES = {
    "reward": "reward",
    "ppo_kl": "ppo_kl",
    "clip_fraction": "clip_ratio/region_mean",
}
_SERIES |= {
    name: f"geoalign/{name}"
    for name in (
        "replaced", "train_accuracy", "heldout_pair_accuracy", "new_group_accuracy", APPLIED, OBSERVED,
    )
}  # fmt: skip


def extract(folder: RunFolder) -> dict[str, Any]:
    """The result of a finished run, from its own files alone."""
    lines = [line for line in read_lines(folder.metrics) if line.get("stage") == "rl"]
    generations = list(read_rollouts(folder.rollouts))
    seconds = [line["step_time"] for line in lines if isinstance(line.get("step_time"), (int, float))]
    return rounded(
        {
            "evaluations": read_lines(folder.evaluation),
            "series": series(lines, generations),
            "detection": detection(generations),
            "snapshots": [snapshot(step) for step in spread(generations, SNAPSHOTS)],
            "seconds_per_step": sum(seconds) / len(seconds) if seconds else None,
        }
    )


def series(lines: Iterable[Mapping[str, Any]], generations: Iterable[RolloutStep]) -> dict[str, list[Any]]:
    """The logged metrics of the RL stage as columns, None where a line lacks one.

    `true_reward` is the mean reward of a generation before corruption, at the first line after it was generated.
    `curation_seconds` is what the curator added to a step: its own seconds and those of its pass for hidden states; 0
    in the further updates on one generation, which curate nothing.
    """
    lines = list(lines)
    columns: dict[str, list[Any]] = {"step": [line["step"] for line in lines]}
    columns |= {name: [line.get(key) for line in lines] for name, key in _SERIES.items()}
    seconds = [curation_seconds(line) for line in lines]
    logged = any(value is not None for value in seconds)
    columns["curation_seconds"] = [value or 0.0 for value in seconds] if logged else seconds
    columns["true_reward"] = _true_rewards(columns["step"], generations)
    return columns


def _true_rewards(steps: list[int], generations: Iterable[RolloutStep]) -> list[float | None]:
    means: dict[int, list[float]] = {}
    for generation in generations:
        after = next((step for step in steps if step > generation.step), -1)
        means.setdefault(after, []).append(mean(generation.true_reward))
    return [None if math.isnan(value := mean(means.get(step, []))) else value for step in steps]


def spread(generations: list[RolloutStep], count: int) -> list[RolloutStep]:
    """At most `count` generations, evenly spread from the first to the last."""
    if not generations:
        return []
    indices = np.linspace(0, len(generations) - 1, min(count, len(generations)))
    return [generations[index] for index in indices.round().astype(int)]


def rounded(value: Mapping[str, Any]) -> dict[str, Any]:
    """The same with every float at six significant digits, and NaN as None: compact, and far below any noise."""
    text = json.dumps(finite(value))
    short: dict[str, Any] = json.loads(text, parse_float=lambda number: float(f"{float(number):.6g}"))
    return short


def replaced_rows(step: RolloutStep) -> Bools:
    """[B] rows whose source is another row, or none, or whose weight is 0 although their reward is known."""
    return (step.source != step.row) | ((step.weight == 0) & ~np.isnan(step.reward))


def detection(generations: Iterable[RolloutStep]) -> dict[str, Any]:
    """The detection quality of a whole run; what is undefined is None. The precision is that of the replaced rows.

    Of a curator with a score of its own every ranking is of the generations that it could rank, so that its score and
    the pair count are judged on the same ones.
    """
    generations = list(generations)
    counts = sum((tally_of(step, replaced_rows(step)) for step in generations), Tally())
    ranked = [rankings_of(step) for step in generations]
    ranked = [each for each in ranked if not math.isnan(each[OWN_SCORE].auroc)] or ranked
    means = {name: mean_ranking(each[name] for each in ranked if name in each) for name in SCORES}
    return {
        **{name: {**quality._asdict(), "generations": count} for name, (quality, count) in means.items() if count},
        "precision_among_replaced": counts.precision if counts.marked and counts.corrupted else None,
        "base_rate": counts.base_rate if counts.rows else None,
    }


def snapshot(step: RolloutStep) -> dict[str, Any]:
    """The rows of one generation as lists, for rank plots; `corrupted` None where it is not known of all."""
    return {
        "step": step.step,
        "score": step.score.tolist(),
        "reward": step.reward.tolist(),
        "corrupted": step.flipped.tolist() if step.flip_known.all() else None,
    }
