"""How well GeoAlign finds corrupted rewards under its two early stops, and how many steps each takes.

    python -m benchmarks.early_stop --d 64 512

Planted directions, 64 groups x 8, 5% of the rewards corrupted, default settings but `early_stop`; two batches in a row,
the projector kept. Prints the AUROC of the scores for the corrupted rewards: mean and standard error over seeds.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from typing import Literal

import torch

from geoalign.curators.geoalign import GeoAlign
from geoalign.statistics import auroc
from geoalign.testing.synthetic import synthetic_rollouts

_BATCHES = 2


def measured(
    stop: Literal["paper", "refit"],
    *,
    d: int,
    states: Literal["isotropic", "compressible"],
    rewards: Literal["continuous", "binary"],
    signal: float,
    seed: int,
) -> tuple[float, float]:
    """Mean AUROC and mean number of steps of one seed's batches."""
    curator = GeoAlign(projector={"early_stop": stop})
    found = []
    steps = []
    for number in range(_BATCHES):
        batch = synthetic_rollouts(64, 8, d, seed=100 * seed + number, rewards=rewards, signal=signal, states=states)
        generator = torch.Generator().manual_seed(10 * seed + number)
        curation = curator.curate(batch.rollouts, generator=generator)
        scored = ~curation.scores.isnan()
        found.append(auroc(curation.scores[scored].numpy(), batch.corrupted[scored].numpy()))
        steps.append(curation.metrics["projector_steps"])
    return statistics.mean(found), statistics.mean(steps)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.early_stop")
    parser.add_argument("--d", type=int, nargs="+", default=[64, 512], help="widths of the states")
    parser.add_argument("--signal", type=float, nargs="+", default=[0.5, 1.0], help="how far quality moves a state")
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args(arguments)
    print("| d | states | rewards | signal | paper: AUROC, steps | refit: AUROC, steps |\n|---|---|---|---|---|---|")
    for d in options.d:
        for states in ("isotropic", "compressible"):
            for rewards in ("continuous", "binary"):
                for signal in options.signal:
                    cells = []
                    for stop in ("paper", "refit"):
                        each = [
                            measured(stop, d=d, states=states, rewards=rewards, signal=signal, seed=seed)  # type: ignore[arg-type]
                            for seed in range(options.seeds)
                        ]
                        values = [value for value, _ in each]
                        error = statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
                        steps = statistics.mean(taken for _, taken in each)
                        cells.append(f"{statistics.mean(values):.3f} ({error:.3f}), {steps:.0f}")
                    print(f"| {d} | {states} | {rewards} | {signal} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
