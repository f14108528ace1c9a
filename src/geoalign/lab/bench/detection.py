"""How well each score finds corrupted rewards, and how well it is done without any geometry.

The scores are GDIs of GeoAlign (sum, mean, excess over the pair count; by the projectors of `projectors`; in and out of
sample); the controls need rewards alone (number of pairs, distance to the group's mean), each in both directions,
because a corrupted reward may stand out by being rare or by being exactly like the others.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from geoalign.curators.geoalign import GeoAlign, GeoAlignConfig
from geoalign.lab.analysis.statistics import Interval, auroc, average_precision, mean_interval
from geoalign.lab.bench.batches import PlantedBatch, load_batch
from geoalign.lab.bench.synthetic import synthetic_rollouts
from geoalign.method.consensus import deviation_index, pair_count
from geoalign.method.groups import canonical_order
from geoalign.method.pairs import Pairs, preference_pairs
from geoalign.method.projector import ProjectorConfig

States = Literal["isotropic", "compressible"]
Rewards = Literal["continuous", "binary"]
STATES: tuple[States, ...] = ("isotropic", "compressible")
REWARDS: tuple[Rewards, ...] = ("binary", "continuous")
WIDTHS = (128, 2048)
AGGREGATIONS: tuple[Literal["sum", "mean", "excess"], ...] = ("sum", "mean", "excess")
SCORINGS: tuple[Literal["in_sample", "cross_fit"], ...] = ("in_sample", "cross_fit")


@dataclass(frozen=True)
class Detected:
    """One score on batches of one kind: area under the ROC curve and average precision, mean and interval.

    `base_rate` is the share of corrupted rewards among the rows with a pair: the average precision of a score
    without information. `batches` is the number of batches behind the interval.
    """

    batch: str
    score: str
    auroc: Interval
    average_precision: Interval
    base_rate: float
    batches: int


def synthetic_batches(
    groups: int,
    size: int,
    *,
    widths: Sequence[int],
    corruption: float,
    seeds: Sequence[int],
    repeated: float = 0.0,
) -> Iterator[tuple[str, list[PlantedBatch]]]:
    """Batches by kind: width, states, rewards; one batch a seed. `repeated`: share of identical responses."""
    for d, states, rewards in itertools.product(widths, STATES, REWARDS):
        yield (
            f"d = {d}, {states}, {rewards}" + (f", {repeated:.0%} repeated" if repeated else ""),
            [
                synthetic_rollouts(
                    groups,
                    size,
                    d,
                    seed=seed,
                    states=states,
                    rewards=rewards,
                    corruption=corruption,
                    repeated=repeated,
                )
                for seed in seeds
            ],
        )


def saved_batches(files: Sequence[Path]) -> Iterator[tuple[str, list[PlantedBatch]]]:
    """Batches from files of `save_batch`, those of one folder as one kind."""
    for folder, members in itertools.groupby(sorted(files), key=lambda path: path.parent):
        yield folder.name or str(folder), [load_batch(path) for path in members]


def detect(name: str, batches: Sequence[PlantedBatch]) -> list[Detected]:
    """Every score and control on batches of one kind; rows in no pair are left out for all alike."""
    areas: dict[str, list[float]] = {}
    precisions: dict[str, list[float]] = {}
    rates = []
    for seed, batch in enumerate(batches):
        scores = {**controls(batch), **deviations(batch, seed)}
        paired = ~np.isnan(scores["pair count"])
        corrupted = batch.corrupted.numpy()[paired]
        rates.append(float(corrupted.mean()) if len(corrupted) else float("nan"))
        for score, values in scores.items():
            areas.setdefault(score, []).append(auroc(values[paired], corrupted))
            precisions.setdefault(score, []).append(average_precision(values[paired], corrupted))
    rate = float(np.mean(rates))
    return [
        Detected(
            name,
            score,
            mean_interval(np.asarray(areas[score])),
            mean_interval(np.asarray(precisions[score])),
            rate,
            len(rates),
        )
        for score in areas
    ]


def controls(batch: PlantedBatch) -> dict[str, np.ndarray]:
    """[B] scores that look at rewards alone, NaN for rows in no pair."""
    rollouts = batch.rollouts
    pairs, order = _pairs(batch)
    count = torch.empty(len(rollouts))
    count[order] = pair_count(pairs, len(rollouts))
    distance = (rollouts.rewards - _group_means(rollouts.rewards, rollouts.groups)).abs().float()
    both: dict[str, Tensor] = {
        "pair count": count,
        "fewest pairs": -count,
        "distance to the group mean": distance,
        "closeness to the group mean": -distance,
    }
    return {name: score.masked_fill(count == 0, torch.nan).numpy() for name, score in both.items()}


def paper_projector(rewards: Tensor) -> ProjectorConfig:
    """The paper's preset, with its early stop: that of mathematics for rewards of two values, else that of dialogue."""
    binary = len(rewards[~rewards.isnan()].unique()) <= 2
    projector = GeoAlignConfig.preset("paper", task="math" if binary else "dialogue").projector
    assert projector is not None
    return projector


def projectors(rewards: Tensor) -> dict[str, ProjectorConfig | None]:
    """The projectors compared, by name; None: raw unit displacements.

    "no early stop": the paper's, but always trained for all its steps. "default": the settings of this package.
    """
    paper = paper_projector(rewards)
    endless = dataclasses.replace(paper, target_accuracy=None)
    return {"paper's": paper, "no early stop": endless, "default": ProjectorConfig(), "raw": None}


def deviations(batch: PlantedBatch, seed: int) -> dict[str, np.ndarray]:
    """[B] GDIs by name: by projector, in or out of sample, summed, averaged, or in excess of the pair count.

    The paper's own is "GDI sum, paper's, in sample".
    """
    scores = {}
    views = projectors(batch.rollouts.rewards)
    for (view, projector), scoring in itertools.product(views.items(), SCORINGS):
        curator = GeoAlign(GeoAlignConfig(projector=projector, scoring=scoring, observe_only=True))
        curation = curator.curate(batch.rollouts, generator=torch.Generator().manual_seed(seed), details=True)
        assert curation.details is not None
        pairs = curation.details.pairs
        as_pairs = Pairs(pairs.winner, pairs.loser, pairs.winner, pairs.margin, torch.ones_like(pairs.margin))
        for aggregation in AGGREGATIONS:
            score = deviation_index(pairs.deviation, as_pairs, len(batch.rollouts), aggregation=aggregation)
            scores[f"GDI {aggregation}, {view}, {scoring.replace('_', ' ')}"] = score.numpy()
    return scores


def measure_detection(
    kinds: Iterator[tuple[str, list[PlantedBatch]]], progress: Callable[[str], None] | None = None
) -> list[Detected]:
    """`detect` on every kind of batch; `progress` gets each kind's name before it is scored."""
    rows = []
    for name, batches in kinds:
        if progress is not None:
            progress(name)
        rows += detect(name, batches)
    return rows


def _pairs(batch: PlantedBatch) -> tuple[Pairs, Tensor]:
    rollouts = batch.rollouts
    rows = canonical_order(rollouts.rewards, rollouts.groups, rollouts.hidden)
    return preference_pairs(rollouts.rewards[rows.order], rows), rows.order


def _group_means(rewards: Tensor, groups: Tensor) -> Tensor:
    _, member = groups.unique(return_inverse=True)
    scored = ~rewards.isnan()
    size = torch.bincount(member[scored], minlength=int(member.max()) + 1)
    total = torch.zeros(len(size), dtype=rewards.dtype).index_add_(0, member[scored], rewards[scored])
    return (total / size)[member]
