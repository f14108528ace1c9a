"""How well a projector orders the pairs of groups that it has not learnt from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from geoalign.curators.curator import Curator
from geoalign.curators.geoalign import GeoAlign
from geoalign.intervals import clustered_proportion
from geoalign.pages.headlines import CHANCE
from geoalign.types import Rollouts

NO_CONSENSUS = "This curator measures no consensus of hidden states."


class ConsensusMeter:
    """Accuracy on groups never trained on, pooled over the steps of one call.

    A GeoAlign judges each step by what it learnt from the ones before. The first has none before it: where no other
    step was judged, the groups of the last one are asked by cross-fitting, with a curator of its own.
    """

    def __init__(self, curator: Curator) -> None:
        self._curator = next((member for member in _members(curator) if isinstance(member, GeoAlign)), None)
        self._judged: list[np.ndarray] = []
        self._last: Rollouts | None = None

    def add(self, rollouts: Rollouts) -> None:
        """Takes how the curator judged the new groups of the rollouts that it has just curated."""
        if self._curator is not None:
            self._take(self._curator)
            self._last = None if self._judged else rollouts  # the states of one step at a time

    def summary(self, seed: int) -> Mapping[str, Any]:
        """The numbers for `summary.json`; no accuracy, but the reason, where nothing could be judged."""
        if self._curator is None:
            return {"new_group_accuracy": None, "reason": NO_CONSENSUS}
        if self._last is not None:
            other = GeoAlign(replace(self._curator.config, scoring="cross_fit"))
            other.curate(self._last, generator=torch.Generator().manual_seed(seed))
            self._take(other)
        if not self._judged:
            reason = "No groups were kept apart to judge a consensus: too few of them have different rewards."
            return {"new_group_accuracy": None, "reason": reason}
        right, total = np.concatenate(self._judged, axis=1)
        accuracy = clustered_proportion(right, total)
        counts = {"groups": len(total), "pairs": int(total.sum()), "steps": len(self._judged)}
        return {**accuracy.named("new_group_accuracy"), "chance_accuracy": CHANCE, "level": 0.95, **counts}

    def _take(self, curator: GeoAlign) -> None:
        judged = curator.judged.numpy()
        if judged.shape[1]:
            self._judged.append(judged)


def _members(curator: Curator) -> list[Curator]:
    return [curator, *(inner for member in curator.members for inner in _members(member))]
