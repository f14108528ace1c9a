"""slime's advantages, and a curation in the list of samples that it goes on to convert. Imports no slime."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.adapters.placement import Placement


def normalised_rewards(
    rewards: Float[Tensor, " b"],
    groups: Int[Tensor, " b"],
    active: Bool[Tensor, " b"],
    *,
    normalise: bool,
    by_std: bool,
) -> Float[Tensor, " b"]:
    """What slime's estimators take for the advantage of every token: (r - mean) / (std + 1e-6) within a group.

    As `RolloutManager._post_process_rewards` of slime 0.3.1, bit for bit where its groups are whole: the standard
    deviation (one degree of freedom less) is that of the centred rewards. Other than there, rows that do not count are
    left out of mean and deviation and get 0, and groups may have any size. A row alone gets 0.

    Args:
        active: [B] the rows that count; their rewards are numbers.
        normalise: not with `--disable-rewards-normalization`: the rewards themselves then.
        by_std: not with `--disable-grpo-std-normalization`.
    """
    found = torch.zeros_like(rewards)
    if not normalise:
        return torch.where(active, rewards, found)
    counting = active.nonzero().flatten()
    _, member, sizes = groups[counting].unique(return_inverse=True, return_counts=True)
    for size in sizes.unique().tolist():
        order = member.argsort(stable=True)
        chosen = counting[order[sizes[member[order]] == size]].reshape(-1, size)
        centred = rewards[chosen] - rewards[chosen].mean(dim=-1, keepdim=True)
        if by_std and size > 1:
            centred = centred / (centred.std(dim=-1, keepdim=True) + 1e-6)
        found[chosen] = centred
    return found


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
