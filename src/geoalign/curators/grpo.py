"""Plain GRPO: the curator that changes nothing."""

from __future__ import annotations

from typing import ClassVar

import torch

from geoalign.curators.base import Curator, identity
from geoalign.settings import settings
from geoalign.types import Curation, Rollouts


@settings
class IdentityConfig:
    """The settings of `GRPO`, the curator that changes nothing: none."""

    type: ClassVar[str] = "grpo"


class GRPO(Curator[IdentityConfig]):
    """Returns every batch unchanged: the base line of every comparison."""

    config_class = IdentityConfig

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Returns the identity curation; draws nothing from `generator`."""
        return identity(rollouts)
