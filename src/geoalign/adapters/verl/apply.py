"""Carrying a curation out around verl's own computation of the advantages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

from geoalign.adapters.placement import Placement
from geoalign.types import Rollouts

# Per-token fields that verl's advantages write; a row kept out of them gets zeros there. The first two always.
WRITTEN = ("advantages", "returns", "token_level_rewards", "rollout_is_weights")


def apply_curation(batch: Any, rows: Sequence[int], rollouts: Rollouts, placement: Placement) -> Any:
    """Makes a batch in TransferQueue (`QueueBatch`) the curated one, with verl's own advantages.

    Donors come under their victims' keys; shaped rewards are in `rm_scores` while verl computes, the raw ones
    afterwards; rows that are dropped or unscorable are kept out of verl's statistics; weights and given advantages are
    written over what verl computed. `rows` are those of the batch that were curated, in the order of `rollouts`;
    padding rows are none of them. Returns verl's metadata of the whole batch.
    """
    slots = placement.replaced.nonzero().flatten().tolist()
    batch.copy([rows[donor] for donor in placement.source[slots].tolist()], [rows[slot] for slot in slots])
    shaped = shaped_slots(placement, rollouts)
    own = [rows[slot] for slot in shaped]
    raw = batch.read(own, ["rm_scores"])["rm_scores"] if own else []
    batch.write(own, {"rm_scores": _last_tokens(raw, placement.rewards[shaped].tolist())})
    active = active_slots(placement, rollouts)
    if bool(active.all()):
        result = batch.advantages()
    else:
        _compute_without(batch, rows, active, placement.kept)
        result = batch.whole()
    batch.write(own, {"rm_scores": raw})
    _write_advantages(batch, rows, placement, active)
    return result


def shaped_slots(placement: Placement, rollouts: Rollouts) -> list[int]:
    """The slots whose reward is not that of the row that they hold."""
    moved = rollouts.rewards[placement.source]
    return ((placement.rewards != moved) & ~placement.rewards.isnan()).nonzero().flatten().tolist()


def active_slots(placement: Placement, rollouts: Rollouts) -> Bool[Tensor, " b"]:
    """[B] the slots that enter verl's group statistics.

    Left out: dropped and unscorable slots, and the last one left of a group that had more (verl would take its reward
    itself for the advantage). A group of one row from the start stays as verl has it.
    """
    active = placement.active
    groups = rollouts.groups.to(active.device)
    for group in groups.unique().tolist():
        members = groups == group
        if int(members.sum()) > 1 and int((members & active).sum()) == 1:
            active = active & ~members
    return active


def _last_tokens(scores: list[Tensor], rewards: list[float]) -> list[Tensor]:
    written = []
    for tokens, reward in zip(scores, rewards, strict=True):
        shaped = torch.zeros_like(tokens)
        shaped[-1] = reward
        written.append(shaped)
    return written


def _compute_without(batch: Any, rows: Sequence[int], active: Tensor, kept: Tensor) -> None:
    """verl's advantages over the rows that count; zeros, and for dropped rows an empty mask, in the others."""
    out = [row for slot, row in enumerate(rows) if not active[slot]]
    dropped = [row for slot, row in enumerate(rows) if not kept[slot]]
    without = set(out)
    counting = [row for row in range(len(batch.keys)) if row not in without]
    known = batch.advantages_of(counting) if counting else []
    names = [name for name in WRITTEN if name in known or name in WRITTEN[:2]]
    masks = batch.read(out, ["response_mask"])["response_mask"]
    zeros = [torch.zeros_like(mask, dtype=torch.float32) for mask in masks]
    batch.write(out, {name: [zero.clone() for zero in zeros] for name in names})
    if dropped:
        empty = [torch.zeros_like(mask) for mask in batch.read(dropped, ["response_mask"])["response_mask"]]
        batch.write(dropped, {"response_mask": empty, "loss_mask": [mask.clone() for mask in empty]})


def _write_advantages(batch: Any, rows: Sequence[int], placement: Placement, active: Tensor) -> None:
    """Given advantages, and weights other than one, over verl's; in every token of the policy's own."""
    given = placement.advantages
    chosen = active & (placement.weights != 1) if given is None else placement.kept
    slots = chosen.nonzero().flatten().tolist()
    if not slots:
        return
    own = [rows[slot] for slot in slots]
    data = batch.read(own, ["advantages", "response_mask"])
    values = []
    for slot, advantages, mask in zip(slots, data["advantages"], data["response_mask"], strict=True):
        tokens = advantages if given is None else given[slot].to(advantages) * mask
        values.append((tokens * placement.weights[slot].to(advantages)).nan_to_num(0.0))
    batch.write(own, {"advantages": values} if given is None else {"advantages": values, "returns": values})
