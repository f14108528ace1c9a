"""Carrying a curation out around verl's own computation of the advantages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from geoalign.adapters.assignment import Assignment
from geoalign.adapters.decision import final_advantages, rewards_stay
from geoalign.method.advantages import group_advantages
from geoalign.types import Rollouts


def apply_curation(
    batch: Any, sessions: Sequence[Sequence[int]], rollouts: Rollouts, assignment: Assignment, *, by_std: bool = True
) -> Any:
    """Makes a batch in TransferQueue (`QueueBatch`) the curated one; returns verl's metadata of it.

    What is decided of a session holds for all its rows (`sessions_of`). Donors come under their victims' keys before
    verl computes its advantages. They stay where each session has the reward that it came with, times the weights.
    Else the curator's own are written over them and the returns, or GRPO's of the curated rewards, in every token of
    the policy's own; `by_std` is verl's `norm_adv_by_std_in_grpo`. Dropped rows have no token in the loss.
    """
    positions, source = assignment.replaced.nonzero().flatten().tolist(), assignment.source.tolist()
    donors = [row for position in positions for row in sessions[source[position]]]
    batch.copy(donors, [row for position in positions for row in sessions[position]])
    result = batch.advantages()
    rows = [row for session in sessions for row in session]
    # The session of each row.
    of = torch.tensor([position for position, session in enumerate(sessions) for _ in session], dtype=torch.long)
    if rewards_stay(assignment, rollouts):
        weights = dict(zip(rows, assignment.weights[of].tolist(), strict=True))
        own = [row for row in rows if weights[row] != 1]
        computed = batch.read(own, ["advantages"])["advantages"] if own else []
        batch.write(own, {"advantages": [tokens * weights[row] for row, tokens in zip(own, computed, strict=True)]})
        return result
    scale: Literal["std", "none"] = "std" if by_std else "none"
    masks = batch.read(rows, ["response_mask"])["response_mask"]
    given = final_advantages(assignment, lambda: group_advantages(assignment.rewards, rollouts.groups, scale=scale))[of]
    values = [value.to(mask.device) * mask for value, mask in zip(given, masks, strict=True)]
    batch.write(rows, {"advantages": values, "returns": [value.clone() for value in values]})
    kept = assignment.kept[of].tolist()
    empty = {row: torch.zeros_like(mask) for row, mask, keep in zip(rows, masks, kept, strict=True) if not keep}
    batch.write([*empty], {name: [mask.clone() for mask in empty.values()] for name in ("response_mask", "loss_mask")})
    return result
