"""A curation in the list of samples that slime goes on to convert. Imports no slime."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from jaxtyping import Bool
from torch import Tensor

from geoalign.adapters.placement import Placement


def active_slots(placement: Placement) -> Bool[Tensor, " b"]:
    """[B] the slots that enter a group's mean and standard deviation: neither dropped nor unscorable."""
    return placement.kept & ~placement.rewards.isnan()


def place_samples(samples: Sequence[Any], rows: Sequence[Sequence[int]], placement: Placement) -> list[list[Any]]:
    """The samples of each slot: its own, or deep copies of its donor's under the ids of the slot.

    Those of a dropped slot are kept out of the loss (`remove_sample`: a mask of zeros).
    """
    placed = [[samples[row] for row in members] for members in rows]
    for slot in placement.replaced.nonzero().flatten().tolist():
        donors = [samples[row] for row in rows[int(placement.source[slot])]]
        placed[slot] = _copies(donors, placed[slot][0])
    for slot in (~placement.kept).nonzero().flatten().tolist():
        for sample in placed[slot]:
            sample.remove_sample = True
    return placed


def _copies(donors: Sequence[Any], victim: Any) -> list[Any]:
    found = [copy.deepcopy(donor) for donor in donors]
    for sample in found:
        sample.index = victim.index
        if hasattr(victim, "rollout_id"):
            # Several samples are one rollout to slime only under one id; without any it is that of the index.
            several = victim.rollout_id is None and len(found) > 1
            sample.rollout_id = victim.index if several else victim.rollout_id
    return found
