"""Carrying a curation out around verl's own computation of the advantages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from geoalign.adapters.placement import Placement
from geoalign.adapters.step import final_advantages, rewards_stay
from geoalign.method.advantages import group_advantages
from geoalign.types import Rollouts


def apply_curation(
    batch: Any, rows: Sequence[int], rollouts: Rollouts, placement: Placement, *, by_std: bool = True
) -> Any:
    """Makes a batch in TransferQueue (`QueueBatch`) the curated one; returns verl's metadata of it.

    Donors come under their victims' keys before verl computes its advantages. They stay where each row has the reward
    that it came with, times the weights. Else the curator's own are written over them and the returns, or GRPO's of
    the curated rewards, in every token of the policy's own; `by_std` is verl's `norm_adv_by_std_in_grpo`. Dropped rows
    have no token in the loss.
    """
    slots = placement.replaced.nonzero().flatten().tolist()
    batch.copy([rows[donor] for donor in placement.source[slots].tolist()], [rows[slot] for slot in slots])
    result = batch.advantages()
    if rewards_stay(placement, rollouts):
        slots = (placement.weights != 1).nonzero().flatten().tolist()
        own = [rows[slot] for slot in slots]
        computed = batch.read(own, ["advantages"])["advantages"] if own else []
        values = [tokens * placement.weights[slot].to(tokens) for slot, tokens in zip(slots, computed, strict=True)]
        batch.write(own, {"advantages": values})
        return result

    def formula() -> Tensor:
        return group_advantages(placement.rewards, rollouts.groups, scale="std" if by_std else "none")

    masks = batch.read(rows, ["response_mask"])["response_mask"]
    values = [
        value.to(mask.device) * mask for value, mask in zip(final_advantages(placement, formula), masks, strict=True)
    ]
    batch.write(rows, {"advantages": values, "returns": [value.clone() for value in values]})
    dropped = (~placement.kept).nonzero().flatten().tolist()
    empty = [torch.zeros_like(masks[slot]) for slot in dropped]
    own = [rows[slot] for slot in dropped]
    batch.write(own, {"response_mask": empty, "loss_mask": [mask.clone() for mask in empty]})
    return result
