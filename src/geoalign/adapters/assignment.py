"""Which output row of a curation goes to which position of the engine's batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.errors import UnsupportedError
from geoalign.types import Curation


@dataclass(frozen=True, eq=False)
class Assignment:
    """A curation of C rows carried over to the B positions of a batch whose row count cannot change.

    Attributes:
        source: [B] input row whose content each position holds; a dropped one keeps its own.
        kept: [B] False for dropped positions.
        rewards: [B] reward of each position; NaN where dropped (or unscorable).
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
        """[B] True where a position holds the content of another row."""
        return self.source != torch.arange(len(self.source), device=self.source.device)

    @property
    def dropped(self) -> bool:
        """Whether any position is dropped."""
        return not bool(self.kept.all())

    @property
    def active(self) -> Bool[Tensor, " b"]:
        """[B] True where a position enters its group's statistics: neither dropped nor unscorable."""
        return self.kept & ~self.rewards.isnan()


def assign(curation: Curation, groups: Int[Tensor, " b"], *, by: str = "a curator") -> Assignment:
    """Assigns every output row of a curation to a position of its own group.

    With C = B output row i goes to position i. With C < B a row goes to its own position while that is free, otherwise
    to the first free one of its group; the positions left over are dropped. `by`: the curator, for the messages.

    Raises:
        UnsupportedError: more rows than positions in the batch or in a group, or a source from another group: the
            advantages would no longer be those of one prompt.
    """
    size, outputs = len(groups), len(curation.source)
    if outputs > size:
        raise UnsupportedError(f"curation of {by}: more rows than the batch: expected at most {size}, got {outputs}")
    positions = range(size) if outputs == size else _positions(curation.source.tolist(), groups.tolist(), by)
    output = torch.tensor(positions, device=curation.source.device)
    kept = output >= 0

    def spread(values: Tensor, empty: float) -> Tensor:
        # A dropped position has output row -1, which indexes the last element: a placeholder.
        return torch.cat([values, values.new_tensor([empty])])[output]

    groups = groups.to(output.device)
    source = torch.where(kept, spread(curation.source, 0), torch.arange(size, device=output.device))
    crossing = (groups[source] != groups).nonzero()
    if len(crossing):
        position = int(crossing[0])
        raise UnsupportedError(
            f"curation of {by} with a source across groups: position {position} of group "
            f"{int(groups[position])} takes row {int(source[position])} of group {int(groups[source[position]])}; an "
            "engine's advantages are those of one prompt"
        )
    return Assignment(
        source=source,
        kept=kept,
        rewards=spread(curation.rewards, torch.nan),
        weights=spread(curation.weights, 0.0),
        advantages=None if curation.advantages is None else spread(curation.advantages, 0.0),
    )


def _positions(source: list[int], groups: list[int], by: str) -> list[int]:
    """[B] output row of each position, -1 where none is left for it."""
    positions = [-1] * len(groups)
    waiting = []
    for row, origin in enumerate(source):
        if positions[origin] < 0:
            positions[origin] = row
        else:
            waiting.append(row)
    free: dict[int, list[int]] = {}
    for position in reversed(range(len(groups))):
        if positions[position] < 0:
            free.setdefault(groups[position], []).append(position)
    for row in waiting:
        group = groups[source[row]]
        if not free.get(group):
            raise UnsupportedError(
                f"curation of {by} with more rows than positions in a group: group {group} has "
                f"{groups.count(group)} positions"
            )
        positions[free[group].pop()] = row
    return positions
