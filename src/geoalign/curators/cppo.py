"""CPPO: trains on the completions of a group with the largest advantages."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import torch
from pydantic import Field

from geoalign.curators.base import Curator
from geoalign.curators.batches import groups_of, subset
from geoalign.errors import InputError
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts


@settings
class CPPOConfig:
    """The settings of `CPPO` (arXiv 2503.22342)."""

    type: ClassVar[str] = "cppo"

    pruning_rate: Annotated[float, Field(ge=0, lt=1)] = setting(default=0.5, help="Share of each group that is pruned.")


class CPPO(Curator[CPPOConfig]):
    """Completion pruning (arXiv 2503.22342): drops the share `pruning_rate` of each group with the smallest |A|.

    Needs `advantages`: it acts after the advantage, so the kept rows bring the advantages of the whole group along. At
    least one row of a group is kept; rows without a reward are left out. Ties go by reward, then as in
    `geoalign.curators.batches.tie_order`.

    Raises:
        InputError: there are no advantages, or one of a row with a reward is not finite.
    """

    config_class = CPPOConfig
    requires = ("advantages",)

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Returns the subset, in each group by descending |A|; draws nothing from `generator`."""
        rollouts.require("advantages", by="CPPO")
        assert rollouts.advantages is not None
        advantages = rollouts.advantages.cpu()
        bad = ~advantages.isfinite() & ~rollouts.rewards.cpu().isnan()
        if bad.any():
            row = int(bad.nonzero()[0])
            raise InputError(f"CPPO: expected finite advantages, got {float(advantages[row])} in row {row}")
        kept = []
        for group in groups_of(rollouts):
            # Half a millionth of a row: 10 * (1 - 0.9) must not fall to 0 by rounding.
            count = max(1, math.floor(len(group.rows) * (1 - self.config.pruning_rate) + 5e-7))
            largest = advantages[group.rows].abs().argsort(descending=True, stable=True)
            kept.append(group.rows[largest[:count]])
        return subset(rollouts, kept, {}, advantages=rollouts.advantages)
