"""Which output row of a curation stands in which slot of the engine's batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.errors import UnsupportedError
from geoalign.types import Curation


@dataclass(frozen=True, eq=False)
class Assignment:
    """A curation of C rows carried over to the B slots of a batch whose row count cannot change.

    Attributes:
        source: [B] input row whose content stands in each slot; a dropped slot keeps its own.
        kept: [B] False for dropped slots.
        rewards: [B] reward of each slot; NaN where dropped (or unscorable).
        weights: [B] factor on the advantage; 0 where dropped.
        advantages: [B] the curator's own advantages, 0 where dropped; None if it gave none.
    """

    source: Int[Tensor, " b"]
    kept: Bool[Tensor, " b"]
    rewards: Float[Tensor, " b"]
    weights: Float[Tensor, " b"]
    advantages: Float[Tensor, " b"] | None

    @property
    def replaced(self) -> Bool[Tensor, " b"]:
        """[B] True where a slot holds the content of another row."""
        return self.source != torch.arange(len(self.source), device=self.source.device)

    @property
    def dropped(self) -> bool:
        """Whether any slot is dropped."""
        return not bool(self.kept.all())

    @property
    def active(self) -> Bool[Tensor, " b"]:
        """[B] True where a slot enters its group's statistics: neither dropped nor unscorable."""
        return self.kept & ~self.rewards.isnan()


def assign(curation: Curation, groups: Int[Tensor, " b"], *, by: str = "a curator") -> Assignment:
    """Assigns every output row of a curation to a slot of its own group.

    With C = B output row i stands in slot i. With C < B a row stands in its own slot while that is free, otherwise in
    the first free slot of its group; the slots left over are dropped. `by`: the curator, for the messages.

    Raises:
        UnsupportedError: more rows than slots in the batch or in a group, or a source from another group: the
            advantages would no longer be those of one prompt.
    """
    size, outputs = len(groups), len(curation.source)
    if outputs > size:
        raise UnsupportedError(
            f"curation of {by} with more rows than the batch: expected at most {size}, got {outputs}"
        )
    slots = range(size) if outputs == size else _slots(curation.source.tolist(), groups.tolist(), by)
    output = torch.tensor(slots, device=curation.source.device)
    kept = output >= 0

    def spread(values: Tensor, empty: float) -> Tensor:
        # Output row -1, of a dropped slot, is the last.
        return torch.cat([values, values.new_tensor([empty])])[output]

    groups = groups.to(output.device)
    source = torch.where(kept, spread(curation.source, 0), torch.arange(size, device=output.device))
    crossing = (groups[source] != groups).nonzero()
    if len(crossing):
        slot = int(crossing[0])
        raise UnsupportedError(
            f"curation of {by} with a source across groups: slot {slot} of group {int(groups[slot])} takes row "
            f"{int(source[slot])} of group {int(groups[source[slot]])}; an engine's advantages are those of one prompt"
        )
    return Assignment(
        source=source,
        kept=kept,
        rewards=spread(curation.rewards, torch.nan),
        weights=spread(curation.weights, 0.0),
        advantages=None if curation.advantages is None else spread(curation.advantages, 0.0),
    )


def _slots(source: list[int], groups: list[int], by: str) -> list[int]:
    """[B] output row of each slot, -1 where none is left for it."""
    slots = [-1] * len(groups)
    waiting = []
    for row, origin in enumerate(source):
        if slots[origin] < 0:
            slots[origin] = row
        else:
            waiting.append(row)
    free: dict[int, list[int]] = {}
    for slot in reversed(range(len(groups))):
        if slots[slot] < 0:
            free.setdefault(groups[slot], []).append(slot)
    for row in waiting:
        group = groups[source[row]]
        if not free.get(group):
            raise UnsupportedError(
                f"curation of {by} with more rows than slots in a group: group {group} has {groups.count(group)} slots"
            )
        slots[free[group].pop()] = row
    return slots
