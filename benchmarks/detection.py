"""How well each score finds corrupted rewards, and how close curators bring the advantages to those of the true ones.

python -m benchmarks.detection [--json FILE] [--seeds 5] [--corruption 0.1] [--batch FILE.safetensors ...]

On synthetic rollouts, 96 x 8 of each kind, or on saved batches: safetensors with `hidden`, `rewards`, `groups` and
`true_rewards`. Scores are GDIs (sum, mean, excess; by the paper's projector with and without its early stop, the
default one, or none; in sample or cross-fitted) and controls by rewards alone. Curators see the batches of a kind in
order, as in a training; the first three count for nothing. Tables are printed in Markdown, as in detection.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.curation import machine
from geoalign import CURATORS, GeoAlign, GeoAlignConfig, ProjectorConfig, Rollouts
from geoalign.curators.session import CurationSession
from geoalign.files.json_files import write_json
from geoalign.method.advantages import group_advantages
from geoalign.method.consensus import deviation_index
from geoalign.method.pairs import Pairs
from geoalign.statistics import Interval, auroc, average_precision, mean_interval, pair_counts
from geoalign.testing.synthetic import PlantedBatch, synthetic_rollouts

WIDTHS, STATES, REWARDS = (128, 2048), ("isotropic", "compressible"), ("binary", "continuous")
WARM_UP = 3
# The columns of the table: title and score.
COLUMNS = {
    "the paper's: sum, in sample": "GDI sum, paper's, in sample",
    "the same, cross-fitted": "GDI sum, paper's, cross fit",
    "the paper's without early stop": "GDI sum, no early stop, in sample",
    "without early stop, cross-fitted": "GDI sum, no early stop, cross fit",
    "excess, default projector, cross-fitted": "GDI excess, default, cross fit",
    "sum, raw": "GDI sum, raw, in sample",
    "mean, raw": "GDI mean, raw, in sample",
    "pair count": "pair count",
    "distance to the mean": "distance to the group mean",
}
# Label -> curator and settings; GeoAlign's are over the paper's.
CURATOR_SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "grpo": ("grpo", {}),
    "geoalign, paper's": ("geoalign", {}),
    "geoalign, cross-fitted": ("geoalign", {"scoring": "cross_fit"}),
    "denoise": ("denoise", {}),
    "denoise, no geometry": ("denoise", {"geometry": "none"}),
    "denoise, permuted": ("denoise", {"geometry": "permuted"}),
    "pair count": ("pair_count", {}),
    "reward distance": ("reward_distance", {}),
    "oracle": ("oracle", {}),
}


def paper_settings(rewards: Tensor, **more: Any) -> GeoAlignConfig:
    """The paper's preset: that of mathematics for rewards of two values, else that of dialogue."""
    binary = len(rewards[~rewards.isnan()].unique()) <= 2
    return GeoAlignConfig.preset("paper", task="math" if binary else "dialogue", **more)


def synthetic(count: int, corruption: float) -> Iterator[tuple[str, list[PlantedBatch]]]:
    """Batches by kind: width, states, rewards; one batch a seed."""
    for d, states, rewards in itertools.product(WIDTHS, STATES, REWARDS):
        batches = [
            synthetic_rollouts(96, 8, d, seed=seed, states=states, rewards=rewards, corruption=corruption)
            for seed in range(count)
        ]
        yield f"d = {d}, {states}, {rewards}", batches


def saved(files: Sequence[Path]) -> Iterator[tuple[str, list[PlantedBatch]]]:
    """Batches from files, those of one folder as one kind."""
    for folder, members in itertools.groupby(sorted(files), key=lambda path: path.parent):
        batches = [Rollouts(**load_file(path)) for path in members]
        yield folder.name, [PlantedBatch(batch, batch.rewards != batch.true_rewards) for batch in batches]


def scores_of(batch: PlantedBatch, seed: int) -> dict[str, np.ndarray]:
    """[B] scores by name, NaN for rows in no pair."""
    rollouts = batch.rollouts
    count = torch.from_numpy(pair_counts(rollouts.rewards.numpy(), rollouts.groups.numpy())).float()
    distance = group_advantages(rollouts.rewards, rollouts.groups, scale="none").abs().float()
    scores = {"pair count": count, "distance to the group mean": distance}
    paper = paper_settings(rollouts.rewards).projector
    projectors = {
        "paper's": paper,
        "no early stop": dataclasses.replace(paper, target_accuracy=None),
        "default": ProjectorConfig(),
        "raw": None,
    }
    for (view, projector), scoring in itertools.product(projectors.items(), ("in_sample", "cross_fit")):
        curator = GeoAlign(projector=projector, scoring=scoring)
        found = curator.curate(rollouts, generator=torch.Generator().manual_seed(seed), details=True).details
        assert found is not None
        pair = found.pairs
        pairs = Pairs(pair.winner, pair.loser, pair.winner, pair.margin, torch.ones_like(pair.margin))
        for how in ("sum", "mean", "excess"):
            score = deviation_index(pair.deviation, pairs, len(rollouts), aggregation=how)
            scores[f"GDI {how}, {view}, {scoring.replace('_', ' ')}"] = score
    return {name: score.masked_fill(count == 0, torch.nan).numpy() for name, score in scores.items()}


def detect(batches: Sequence[PlantedBatch]) -> dict[str, tuple[Interval, Interval]]:
    """AUROC and average precision of every score for corrupted rewards, over the rows in a pair, mean over batches."""
    found: dict[str, list[tuple[float, float]]] = {}
    for seed, batch in enumerate(batches):
        for name, score in scores_of(batch, seed).items():
            paired = ~np.isnan(score)
            corrupted = batch.corrupted.numpy()[paired]
            both = auroc(score[paired], corrupted), average_precision(score[paired], corrupted)
            found.setdefault(name, []).append(both)
    return {
        name: tuple(mean_interval(np.array(column)) for column in zip(*values, strict=True))
        for name, values in found.items()
    }


def session_of(curator: str, settings: dict[str, Any], rewards: Tensor) -> CurationSession:
    """The curator of that name, for rewards like these; GeoAlign's settings are over the paper's."""
    kind = CURATORS[curator]
    config = paper_settings(rewards, **settings) if curator == "geoalign" else kind.config_class(**settings)
    return CurationSession(kind(config), seed=0)


def advantage_cosine(curator: str, settings: dict[str, Any], batches: Sequence[PlantedBatch]) -> Interval:
    """Cosine of the advantages after curation with those of the true rewards, over the batches after `WARM_UP`."""
    session = session_of(curator, settings, batches[0].rollouts.rewards)
    cosines = [session.curate(batch.rollouts).metrics["advantage_cosine"] for batch in batches]
    return mean_interval(np.array(cosines[WARM_UP:]))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="batches of each kind")
    parser.add_argument("--corruption", type=float, default=0.1, help="share of the synthetic rewards")
    parser.add_argument("--batch", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every figure with its interval")
    options = parser.parse_args(arguments)
    record: dict[str, Any] = {"machine": machine(), "detection": {}, "curators": {}}
    print(f"| {' | '.join(heads := ('batch', *COLUMNS, *CURATOR_SETTINGS))} |\n{'|---' * len(heads)}|")
    for name, batches in (
        saved(options.batch) if options.batch else synthetic(options.seeds + WARM_UP, options.corruption)
    ):
        found = detect(batches[: options.seeds])
        curated = {label: advantage_cosine(*given, batches) for label, given in CURATOR_SETTINGS.items()}
        record["detection"][name] = found
        record["curators"][name] = curated
        cells = [f"{found[score][0].estimate:.2f} / {found[score][1].estimate:.2f}" for score in COLUMNS.values()]
        print(f"| {name} | {' | '.join([*cells, *(f'{one.estimate:.2f}' for one in curated.values())])} |", flush=True)
    if options.json:
        write_json(options.json, json.loads(json.dumps(record, default=dataclasses.asdict)))


if __name__ == "__main__":
    main()
