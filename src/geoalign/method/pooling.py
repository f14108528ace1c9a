"""The pairs of several batches as one, for projectors and prototypes of which one batch says too little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.errors import ConfigError
from geoalign.method.pairs import Pairs


@dataclass(frozen=True, eq=False)
class WeighedPairs:
    """Pairs with their weights, and the rows that they are made of.

    Attributes:
        states: [B, d] centred states in sorted order.
        offsets: [G + 1] where the rows of each group begin.
        pairs: sorted by group, with their distances.
        weights: [P] each pair's weight in the prototype.
    """

    states: Float[Tensor, "b d"]
    offsets: Int[Tensor, " g1"]
    pairs: Pairs
    weights: Float[Tensor, " p"]


def joined(batches: Sequence[WeighedPairs], decay: float) -> WeighedPairs:
    """Several batches as one, the last one last and with its own weights, those before it with theirs by decay^age.

    Rows, groups and pairs keep their order and are numbered on. On the last batch's device; a single batch is returned
    itself.
    """
    if len(batches) == 1:
        return batches[0]
    device = batches[-1].states.device
    rows = groups = 0
    offsets, pairs, weights = [], [], []
    for age, batch in zip(range(len(batches) - 1, -1, -1), batches, strict=True):
        offsets.append(batch.offsets[:-1].to(device) + rows)
        pairs.append(_renumbered(batch.pairs, rows, groups, device))
        weights.append(batch.weights.to(device) * decay**age)
        rows, groups = rows + len(batch.states), groups + len(batch.offsets) - 1
    together = {item.name: torch.cat([getattr(each, item.name) for each in pairs]) for item in fields(Pairs)}
    return WeighedPairs(
        states=torch.cat([batch.states.to(device) for batch in batches]),
        offsets=torch.cat([*offsets, offsets[0].new_tensor([rows])]),
        pairs=Pairs(**together),
        weights=torch.cat(weights),
    )


def _renumbered(pairs: Pairs, rows: int, groups: int, device: torch.device) -> Pairs:
    """The pairs after so many other rows and groups."""
    return Pairs(
        pairs.winner.to(device) + rows,
        pairs.loser.to(device) + rows,
        pairs.group.to(device) + groups,
        pairs.margin.to(device),
        pairs.distance.to(device),
    )


class PairPool:
    """The pairs of the last few batches. Their states are those of the policies that generated them.

    Args:
        batches: how many are kept; 0: every batch stands alone.
        decay: the weight of a batch relative to the next in the prototype; training takes all pairs alike.
    """

    def __init__(self, batches: int, decay: float) -> None:
        self._most, self._decay = batches, decay
        self._kept: list[WeighedPairs] = []

    def joined_with(self, batch: WeighedPairs) -> WeighedPairs:
        """The kept pairs and then those of this batch."""
        return joined([*self._kept, batch], self._decay)

    def add(self, batch: WeighedPairs) -> None:
        """Keeps a batch for the next ones, and lets the oldest go."""
        self._kept = [*self._kept, batch][-self._most :] if self._most else []

    def state(self) -> list[dict[str, Any]]:
        """The kept batches."""
        return [{**vars(batch), "pairs": dict(vars(batch.pairs))} for batch in self._kept]

    def load(self, state: Sequence[Mapping[str, Any]]) -> None:
        """Restores `state`.

        Raises:
            ConfigError: more batches than are kept here.
        """
        if len(state) > self._most:
            raise ConfigError(f"pooled: expected a state of at most {self._most} earlier batches, got {len(state)}")
        self._kept = [WeighedPairs(**{**batch, "pairs": Pairs(**batch["pairs"])}) for batch in state]
