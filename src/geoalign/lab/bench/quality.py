"""What stepping over a subset of groups costs in quality: accuracy on new groups, and the ranking of the rollouts."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy.stats import spearmanr

from geoalign.curators.geoalign import GeoAlign, GeoAlignConfig
from geoalign.lab.analysis.statistics import auroc
from geoalign.lab.bench.curation import Shape
from geoalign.lab.bench.synthetic import synthetic_rollouts

# How to step, and what is added to the seed: the second row shows how much the ranking owes to the draws alone.
_STEPPING: dict[str, tuple[Literal["auto"] | None, int]] = {
    "all groups": (None, 0),
    "all, other seed": (None, 1000),
    "auto": ("auto", 0),
}


@dataclass(frozen=True)
class Quality:
    """One way of stepping, over several seeds.

    `accuracy` is the orientation accuracy on groups of a second batch, never trained on; `auroc` says how well the GDI
    ranks the corrupted rewards of that batch; `agreement` is the rank correlation of its GDI with that of stepping over
    all groups.
    """

    states: str
    stepping: str
    seconds: float
    accuracy: list[float]
    auroc: list[float]
    agreement: list[float]


def stepping_quality(
    shape: Shape, *, seeds: Sequence[int], states: Sequence[Literal["isotropic", "compressible"]]
) -> list[Quality]:
    """Compares `groups_per_step` "auto" with all groups on the same batches, with the paper's early stop."""
    paper = GeoAlignConfig.preset("paper", task="dialogue").projector
    assert paper is not None
    rows = []
    for kind in states:
        reference: list[np.ndarray] = []
        for name, (groups_per_step, other) in _STEPPING.items():
            seconds, accuracy, detection, scores = [], [], [], []
            for seed in seeds:
                config = dataclasses.replace(paper, groups_per_step=groups_per_step)
                curator = GeoAlign(GeoAlignConfig(projector=config))
                generator = torch.Generator().manual_seed(seed + other)
                first, second = (
                    synthetic_rollouts(shape.groups, shape.size, shape.d, seed=2 * seed + part, states=kind)
                    for part in range(2)
                )
                curator.curate(first.rollouts, generator=generator)
                started = time.perf_counter()
                curation = curator.curate(second.rollouts, generator=generator)
                seconds.append(time.perf_counter() - started)
                accuracy.append(curation.metrics["new_group_accuracy"])
                detection.append(auroc(curation.scores.numpy(), second.corrupted.numpy()))
                scores.append(curation.scores.numpy())
            reference = reference or scores
            agreement = [float(spearmanr(mine, other).statistic) for mine, other in zip(scores, reference, strict=True)]
            rows.append(Quality(kind, name, float(np.median(seconds)), accuracy, detection, agreement))
    return rows
