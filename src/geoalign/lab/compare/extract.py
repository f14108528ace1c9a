"""From the folder of a finished run to the compact result that a comparison keeps of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from geoalign.lab.analysis.cost import curation_seconds
from geoalign.lab.compare.detection import Generation, detection, snapshot
from geoalign.lab.store.files import finite, read_lines
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
    "train_accuracy": "geoalign/train_accuracy",
    "hidden_seconds": "geoalign/hidden_seconds",
    "step_seconds": "step_time",
}
# Left out where the log has none of it, because not every version of the trainer or curator logs it.
_OPTIONAL = ("mean_abs_advantage", "hidden_seconds")
_COLUMNS = ["group", "reward", "true_reward", "corrupted", "score", "anomalous", "source", "weight"]


def extract(folder: RunFolder, curator: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a finished run, read from its own files alone.

    Args:
        folder: the run's folder.
        curator: its resolved settings, `type` included.

    Returns:
        `evaluations`, `series`, `detection`, `snapshots`, `seconds_per_step`.
    """
    lines = [line for line in read_lines(folder.metrics) if line.get("stage") == "rl"]
    generations = list(read_generations(folder.rollouts))
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


def read_generations(rollouts: Path) -> Iterable[Generation]:
    """The curated batches of a run in their order."""
    for path in sorted(rollouts.glob("step-*.parquet")):
        table = pq.read_table(path, columns=_COLUMNS)
        step = int(path.name.removeprefix("step-").removesuffix(".parquet"))
        yield generation_of(step, table)


def generation_of(step: int, table: pa.Table) -> Generation:
    """One batch from the table that a run wrote of it.

    A row is replaced where another row stands in its place, or none, or where its weight is 0 although its reward is
    known.
    """
    reward = _numbers(table, "reward")
    source = table["source"].to_numpy()
    weight = _numbers(table, "weight")
    corrupted = table["corrupted"]
    return Generation(
        step=step,
        group=table["group"].to_numpy(),
        reward=reward,
        true_reward=_numbers(table, "true_reward"),
        corrupted=None if corrupted.null_count else corrupted.to_numpy().astype(bool),
        score=_numbers(table, "score"),
        anomalous=table["anomalous"].to_numpy().astype(bool),
        replaced=(source != np.arange(len(source))) | ((weight == 0) & ~np.isnan(reward)),
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


def _numbers(table: pa.Table, name: str) -> NDArray[np.float64]:
    return table[name].cast(pa.float64()).fill_null(float("nan")).to_numpy().astype(np.float64)
