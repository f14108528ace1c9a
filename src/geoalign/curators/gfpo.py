"""GFPO: trains on the shortest, or the most token-efficient, rollouts of a group."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator
from geoalign.curators.batches import Group, groups_of, half, subset
from geoalign.errors import InputError
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts


@settings
class GFPOConfig:
    """The settings of `GFPO` (arXiv 2508.09726)."""

    type: ClassVar[str] = "gfpo"

    by: Literal["length", "token_efficiency"] = setting(
        default="length", help="Keep the shortest responses, or those of most reward per token."
    )
    k: Annotated[int, Field(ge=2)] | None = setting(
        default=None, help="Rollouts kept per group; null: half of it, at least two."
    )


class GFPO(Curator[GFPOConfig]):
    """Group filtered policy optimisation (arXiv 2508.09726): keeps the k best of each group by a length criterion.

    "length" keeps the shortest, "token_efficiency" those of most reward per token. Needs `lengths`. It acts before the
    advantage: statistics are those of the kept rows. (The paper leaves the other rows' tokens in the normaliser of its
    loss; here they are left out, as with every subset.)

    Raises:
        InputError: there are no lengths, a length is below 1, or k is larger than a group; the message names it.
    """

    config_class = GFPOConfig
    requires = ("lengths",)

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Returns the subset, in each group the best first; draws nothing from `generator`."""
        rollouts.require("lengths", by="GFPO")
        assert rollouts.lengths is not None
        lengths = rollouts.lengths.cpu()
        if bool((lengths < 1).any()):
            row = int((lengths < 1).nonzero()[0])
            raise InputError(f"GFPO: expected lengths of at least 1 token, got {int(lengths[row])} in row {row}")
        groups = groups_of(rollouts)
        kept = [group.rows[self._chosen(group, lengths[group.rows])] for group in groups]
        short = sum(self.config.k is not None and len(group.rows) < self.config.k for group in groups)
        return subset(rollouts, kept, {"groups_short_of_rewards": float(short), "kept_length": _mean(lengths, kept)})

    def _chosen(self, group: Group, lengths: Int[Tensor, " n"]) -> Int[Tensor, " k"]:
        k = half(len(group.rows)) if self.config.k is None else self.config.k
        if k > group.size:
            raise InputError(
                f"GFPO: expected k of at most the {group.size} rollouts of a group, got k = {k} in group {group.name}"
            )
        merit: Float[Tensor, " n"] = -lengths.double()
        if self.config.by == "token_efficiency":
            merit = group.rewards.double() / lengths
        return merit.argsort(descending=True, stable=True)[:k]


def _mean(lengths: Tensor, kept: list[Tensor]) -> float:
    rows = torch.cat([*kept, torch.zeros(0, dtype=torch.long)])
    return float(lengths[rows].double().mean())
