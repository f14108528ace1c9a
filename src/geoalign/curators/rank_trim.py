"""Control for continuous rewards: the extremes of each group do not count, wherever they stand."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from pydantic import Field

from geoalign.curators.base import Curator
from geoalign.curators.batches import groups_of, reweighted
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts


@settings
class RankTrimConfig:
    """The settings of `RankTrim`."""

    type: ClassVar[str] = "rank_trim"

    m: Annotated[int, Field(ge=1)] = setting(
        default=1, help="So many of the highest and as many of the lowest rewards of a group get weight 0."
    )


class RankTrim(Curator[RankTrimConfig]):
    """Gives the m highest and the m lowest rewards of each group weight 0; nothing but the rewards' order is looked at.

    Rewards that are wrong by far stand at the extremes, so this is the control of every method that finds them there.
    The trimmed rows still enter the mean and the deviation of their group: rewards and advantages of the others stay as
    they are. Of equal rewards those trimmed are told apart by `tie_order`. Groups with fewer than 2m + 2 rewards, in
    which less than a pair would be left, and groups of equal rewards stay whole.
    """

    config_class = RankTrimConfig

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Weighs the rows; draws nothing from `generator`."""
        m = self.config.m
        weights = torch.ones(len(rollouts))
        whole = 0
        for group in groups_of(rollouts):
            if len(group.rows) < 2 * m + 2 or group.rewards[0] == group.rewards[-1]:
                whole += 1
                continue
            weights[torch.cat([group.rows[:m], group.rows[-m:]])] = 0
        metrics = {"trimmed_rows": float((weights == 0).sum()), "whole_groups": float(whole)}
        return reweighted(rollouts, weights, metrics)
