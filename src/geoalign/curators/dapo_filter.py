"""The filter of DAPO's dynamic sampling, without its resampling."""

from __future__ import annotations

from typing import ClassVar

import torch

from geoalign.curators.base import Curator
from geoalign.curators.batches import groups_of, subset
from geoalign.settings import settings
from geoalign.types import Curation, Rollouts


@settings
class DAPOFilterOnlyConfig:
    """The settings of `DAPOFilterOnly` (arXiv 2503.14476): none."""

    type: ClassVar[str] = "dapo_filter_only"


class DAPOFilterOnly(Curator[DAPOFilterOnlyConfig]):
    """Leaves out the groups whose rewards are all equal (arXiv 2503.14476): FILTER ONLY, nothing is sampled anew.

    DAPO goes on sampling prompts until the batch is full again; a curator sees one batch and cannot. Such groups have
    advantage 0 anyway, so what is left of the method is the normaliser of the loss (and a KL term, where there is one).
    A group with one reward, or none, is left out too; a batch without any difference comes back empty.
    """

    config_class = DAPOFilterOnlyConfig

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Returns the groups with a difference; draws nothing from `generator`."""
        groups = groups_of(rollouts)
        kept = [group.rows for group in groups if len(group.rows) and bool((group.rewards != group.rewards[0]).any())]
        return subset(rollouts, kept, {"groups_left_out": float(len(groups) - len(kept))})
