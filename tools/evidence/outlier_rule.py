"""How far the outlier rule of the recorded runs of GeoAlign differs from today's, on the batches that were kept.

All recorded runs flagged each score right of the mode whose density is below alpha times the peak. Since commit
869becc6 a score is flagged if it lies above the last score that is not sparse (docs/method.md, "The high tail").
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from geoalign.method.density import KernelDensity, sparse_tail
from tools.evidence.results import levels_of

FOLDERS = {
    "maths": ("math", "math_shortcut", "math_denoise", "math_hard_denoise"),
    "dialogue": ("dialogue", "dialogue_shortcut", "dialogue_again", "dialogue_denoise_again"),
}


@dataclass(frozen=True)
class Batches:
    """Recorded batches of GeoAlign: how many, how many are flagged otherwise today, and the flags of both rules."""

    count: int
    differ: int
    flags_then: int
    flags_today: int


@functools.cache
def batches(task: str) -> Batches:
    """The batches of a task, under the rule of the recorded runs and under today's."""
    then = []
    today = []
    for scores, alpha in _recorded(task):
        then.append(flagged_then(scores, alpha=alpha))
        tail = sparse_tail(scores, alpha=alpha)
        today.append(torch.zeros_like(then[-1]) if tail is None else tail.flagged)
    differ = sum(not torch.equal(*both) for both in zip(then, today, strict=True))
    return Batches(len(then), differ, sum(int(one.sum()) for one in then), sum(int(one.sum()) for one in today))


def flagged_then(scores: Tensor, *, alpha: float) -> Tensor:
    """The scores right of the mode with a density below alpha times the peak."""
    if sparse_tail(scores, alpha=alpha) is None:
        return torch.zeros_like(scores, dtype=torch.bool)
    ascending, order = scores.sort()
    density = torch.empty_like(scores)
    density[order] = KernelDensity.from_ascending(ascending).at_scores()
    mode = scores[density == density.max()].max()
    return (scores > mode) & (density < alpha * density.max())


def _recorded(task: str) -> list[tuple[Tensor, float]]:
    found = []
    for folder in FOLDERS[task]:
        for level in levels_of(folder).values():
            for run in level.finished("geoalign"):
                for snapshot in run.result.snapshots:
                    scored = snapshot.score[~np.isnan(snapshot.score)]
                    found.append((torch.from_numpy(scored), float(run.result.settings["alpha"])))
    return found
