"""How well a projector orders the pairs of groups that it has not learnt from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from geoalign.curators.curator import Curator
from geoalign.curators.geoalign import GeoAlign
from geoalign.intervals import clustered_proportion
from geoalign.pages.headlines import CHANCE
from geoalign.types import Rollouts

_NO_GEOALIGN = "This curator measures no consensus of hidden states."
_NO_GROUPS = "No groups were kept apart to judge a consensus: too few of them have different rewards."


class ConsensusMeter:
    """Accuracy on groups never trained on, pooled over the steps of one call.

    A GeoAlign judges each step by what it learnt from the ones before. The first has none before it: where no other
    step was judged, the groups of the last one are asked by cross-fitting, with a curator of its own.
    """

    def __init__(self, curator: Curator) -> None:
        """Looks for a GeoAlign in the curator or in what it holds; without one there is nothing to measure."""
        curators = [curator, *curator.held_curators()]
        self._geoalign = next((each for each in curators if isinstance(each, GeoAlign)), None)
        self._judged: list[np.ndarray] = []
        self._last: Rollouts | None = None

    def add(self, rollouts: Rollouts) -> None:
        """Takes how the curator judged the new groups of the rollouts that it has just curated."""
        if self._geoalign is not None:
            self._take(self._geoalign)
            # The states of one step at a time are kept.
            self._last = None if self._judged else rollouts

    def summary(self, seed: int) -> dict[str, Any]:
        """`consensus` of `summary.json`: no accuracy, but the reason, where nothing could be judged."""
        if self._geoalign is None:
            return _unmeasured(_NO_GEOALIGN)
        if self._last is not None:
            other = GeoAlign(replace(self._geoalign.config, scoring="cross_fit"))
            other.curate(self._last, generator=torch.Generator().manual_seed(seed))
            self._take(other)
        if not self._judged:
            return _unmeasured(_NO_GROUPS)
        right, total = np.concatenate(self._judged, axis=1)
        return {
            **clustered_proportion(right, total).as_metrics("new_group_accuracy"),
            "chance_accuracy": CHANCE,
            "level": 0.95,
            "groups": len(total),
            "pairs": int(total.sum()),
            "steps": len(self._judged),
        }

    def _take(self, geoalign: GeoAlign) -> None:
        """Keeps, of each group that was judged, how many pairs were ordered rightly, and how many there are."""
        judged = geoalign.judged.numpy()
        if judged.shape[1]:
            self._judged.append(judged)


def _unmeasured(reason: str) -> dict[str, Any]:
    return {"new_group_accuracy": None, "reason": reason}
