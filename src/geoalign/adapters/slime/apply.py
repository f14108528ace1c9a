"""A curation in the list of samples that slime goes on to convert. Imports no slime."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from geoalign.adapters.placement import Placement
from geoalign.types import Rollouts


def active_slots(placement: Placement) -> Bool[Tensor, " b"]:
    """[B] the slots that enter a group's mean and standard deviation: neither dropped nor unscorable."""
    return placement.kept & ~placement.rewards.isnan()


def slot_advantages(placement: Placement, normalised: Float[Tensor, " b"]) -> Float[Tensor, " b"]:
    """[B] the engine's normalised rewards or the curator's own advantages, times the weights; 0 where nothing counts.

    A weight of 1 leaves every bit as it is.
    """
    base = normalised if placement.advantages is None else placement.advantages.to(normalised)
    advantages = (base * placement.weights.to(base)).nan_to_num(0.0)
    return advantages.masked_fill(~active_slots(placement), 0.0)


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


def reward_metrics(rollouts: Rollouts, placement: Placement) -> dict[str, float]:
    """Mean rewards before and after, and how many rollouts were replaced, dropped or had no reward."""
    return {
        "raw_reward": rollouts.rewards.nanmean().item(),
        "curated_reward": placement.rewards.nanmean().item(),
        "replaced_rows": float(placement.replaced.sum()),
        "dropped_rows": float((~placement.kept).sum()),
        "unscored_rows": float(rollouts.rewards.isnan().sum()),
    }
