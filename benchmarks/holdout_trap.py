"""How generalisation must not be measured: what scoring does to groups that a projector was not trained on.

Ways to score the same synthetic batch at d = 2048: the trap (one projector, trained on 90% of the groups, scores all of
them), in sample and cross-fitted, these two without an early stop and with the paper's. The table says where the
flagged rollouts lie, how well the score finds corrupted rewards, and how far training and new groups part.
Run: python -m benchmarks.holdout_trap
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from benchmarks.detection import paper_settings
from geoalign import GeoAlign, GeoAlignConfig, ProjectorConfig
from geoalign.console.terminal import Console, say
from geoalign.curators.rectifying import TailConfig, flag_sparse_tail
from geoalign.method.consensus import ProjectedConsensus, deviation_index
from geoalign.method.groups import in_input_order
from geoalign.method.scoring import paired_batch
from geoalign.statistics import auroc, pair_counts
from geoalign.testing.synthetic import synthetic_rollouts
from geoalign.types import Rollouts

STATES: tuple[Literal["isotropic", "compressible"], ...] = ("isotropic", "compressible")
REWARDS: tuple[Literal["continuous", "binary"], ...] = ("continuous", "binary")
PROJECTOR = ProjectorConfig(target_accuracy=None)


@dataclass(frozen=True, eq=False)
class Batch:
    """The rollouts to score, which of their rewards were corrupted, and a batch of the same kind that came before."""

    rollouts: Rollouts
    corrupted: torch.Tensor
    earlier: Rollouts


@dataclass(frozen=True, eq=False)
class Outcome:
    """[B] scores, flags and rows of held-out groups (none where all groups are treated alike); deviations, accuracy."""

    scores: np.ndarray
    flagged: np.ndarray
    held_out: np.ndarray
    train_deviation: float
    new_deviation: float
    new_accuracy: float


def make_batch(
    states: Literal["isotropic", "compressible"],
    rewards: Literal["continuous", "binary"],
    seed: int,
    groups: int = 96,
    size: int = 8,
    d: int = 2048,
    signal: float = 1.0,
) -> Batch:
    """A synthetic batch and its predecessor, 5% of the rewards corrupted in both."""
    now, earlier = (
        synthetic_rollouts(groups, size, d, seed=2 * seed + part, states=states, rewards=rewards, signal=signal)
        for part in range(2)
    )
    return Batch(now.rollouts, now.corrupted, earlier.rollouts)


def trap(data: Batch, seed: int) -> Outcome:
    """Trains on 90% of the groups and scores all of them: what must not be done."""
    rollouts = data.rollouts
    assert rollouts.hidden is not None
    generator = torch.Generator().manual_seed(seed)
    batch = paired_batch(rollouts, rollouts.hidden)
    rows, states, pairs = batch.rows, batch.states, batch.pairs
    groups = len(rows.sizes)
    held = torch.zeros(groups, dtype=torch.bool)
    held[torch.randperm(groups, generator=generator)[: groups // 10]] = True
    new = held[pairs.group]
    training = pairs.take(~new)
    consensus = ProjectedConsensus(states.shape[1], PROJECTOR, generator)
    consensus.fit(states, rows.offsets, training, generator)
    on_rollouts = consensus.on_rollouts(states)
    consensus.set_prototype(on_rollouts, training, batch.weights[~new])
    deviation = 1 - consensus.cosines(on_rollouts, pairs)
    back = in_input_order(rows, states.device)
    scores = back(deviation_index(deviation, pairs, len(rollouts), aggregation="sum"))
    flags = flag_sparse_tail(scores, TailConfig(min_scores=2))
    return Outcome(
        scores.numpy(),
        flags.anomalous.numpy(),
        back(held[rows.group]).numpy(),
        float(deviation[~new].mean()),
        float(deviation[new].mean()),
        float(consensus.orientation(states, pairs.take(new)).mean()),
    )


def curated(scoring: Literal["in_sample", "cross_fit"], *, paper: bool = False) -> Callable[[Batch, int], Outcome]:
    """GeoAlign's own scoring, in a call that follows one on another batch, so that new-group metrics exist.

    Weights are not kept between the two: the batch is scored by a projector that saw nothing else, as the trap's.
    `paper`: with the paper's projector settings, its early stop among them; otherwise trained as the trap's.
    """

    def run(data: Batch, seed: int) -> Outcome:
        generator = torch.Generator().manual_seed(seed)
        projector = paper_settings(data.rollouts.rewards).projector if paper else PROJECTOR
        cold = dataclasses.replace(projector, warm_start=False)
        curator = GeoAlign(GeoAlignConfig(scoring=scoring, projector=cold))
        if scoring == "in_sample":
            curator.curate(data.earlier, generator=generator)
        curation = curator.curate(data.rollouts, generator=generator)
        metrics = curation.metrics
        return Outcome(
            curation.scores.numpy(),
            curation.anomalous.numpy(),
            np.zeros(len(data.rollouts), dtype=bool),
            metrics["train_deviation"],
            metrics["new_group_deviation"],
            metrics["new_group_accuracy"],
        )

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    ways = {
        "trap: 90% of the groups": trap,
        "in sample": curated("in_sample"),
        "cross-fit": curated("cross_fit"),
        "in sample, the paper's projector": curated("in_sample", paper=True),
        "cross-fit, the paper's projector": curated("cross_fit", paper=True),
    }
    say(
        Console(),
        "| states | rewards | scoring | flagged | flags in held-out groups (10% of all) | groups with flags "
        "| deviation: training / new | new-group accuracy | AUROC: GDI / pair count | precision among flagged |",
    )
    say(Console(), "|---|---|---|---|---|---|---|---|---|---|")
    for states in STATES:
        for rewards in REWARDS:
            batches = [make_batch(states, rewards, seed) for seed in range(options.seeds)]
            for name, way in ways.items():
                outcomes = [way(batch, seed) for seed, batch in enumerate(batches)]
                say(Console(), _row(states, rewards, name, outcomes, batches))


def _row(states: str, rewards: str, name: str, outcomes: list[Outcome], batches: list[Batch]) -> str:
    def mean(values: list[float]) -> float:
        return float(np.mean([value for value in values if not np.isnan(value)] or [np.nan]))

    both = list(zip(outcomes, batches, strict=True))
    inside = [
        float(one.held_out[one.flagged].mean()) if one.held_out.any() and one.flagged.any() else float("nan")
        for one in outcomes
    ]

    labels = [(one.rollouts.rewards.numpy(), one.rollouts.groups.numpy()) for one in batches]
    with_flags = [
        len(np.unique(groups[one.flagged])) / len(np.unique(groups))
        for one, (_, groups) in zip(outcomes, labels, strict=True)
    ]
    counted = [auroc(pair_counts(*given), one.corrupted.numpy()) for given, one in zip(labels, batches, strict=True)]
    cells = [
        states,
        rewards,
        name,
        f"{mean([one.flagged.sum() for one in outcomes]):.0f}",
        "none held out" if np.isnan(mean(inside)) else f"{mean(inside):.0%}",
        f"{mean(with_flags):.0%}",
        f"{mean([one.train_deviation for one in outcomes]):.3f} / {mean([one.new_deviation for one in outcomes]):.3f}",
        f"{mean([one.new_accuracy for one in outcomes]):.3f}",
        f"{mean([auroc(o.scores, b.corrupted.numpy()) for o, b in both]):.2f} / {mean(counted):.2f}",
        f"{mean([b.corrupted.numpy()[o.flagged].mean() for o, b in both]):.2f}",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
