"""PODS: trains on the rollouts of a group whose rewards differ most."""

from __future__ import annotations

from typing import Annotated, ClassVar

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
class PODSConfig:
    """The settings of `PODS` (arXiv 2504.13818)."""

    type: ClassVar[str] = "pods"

    m: Annotated[int, Field(ge=2)] | None = setting(
        default=None, help="Rollouts kept per group; null: half of it, at least two."
    )


def max_variance_subset(rewards: Float[Tensor, " n"], m: int) -> Int[Tensor, " m"]:
    """Positions of the m of n rewards whose variance is largest: the i highest and the m - i lowest, for the best i.

    Such a subset always has this form (the paper's theorem), so m + 1 candidates are enough: first the m highest, then
    i = 0, 1, ..., m - 1; a later one wins only with a strictly greater variance. The sort is stable, so among equal
    rewards the first rows count as the highest.

    Args:
        rewards: [n] without NaN, n >= m >= 2.

    Returns:
        [m] positions in descending order of reward.
    """
    n = len(rewards)
    # Variances that differ by rounding only decide ties as the authors' code does: in the rewards' own precision.
    rewards = rewards if rewards.dtype.itemsize >= 4 else rewards.float()
    # By a power of two, which rounds nothing: squares of very large or small rewards leave float32 otherwise.
    rewards = torch.ldexp(rewards, -torch.frexp(rewards.abs().max()).exponent)
    descending = rewards.argsort(descending=True, stable=True)
    candidates = torch.arange(m).repeat(m + 1, 1)
    # Row i + 1 is candidate i: the positions from i on move to the end of the order.
    lowest = torch.arange(m)[None, :] >= torch.arange(m)[:, None]
    candidates[1:] += (n - m) * lowest
    variance = rewards[descending][candidates].var(dim=1)
    first = (variance == variance.max()).nonzero()[0, 0]
    return descending[candidates[first]]


class PODS(Curator[PODSConfig]):
    """Max-variance down-sampling (arXiv 2504.13818): keeps the m rollouts of each group with the largest variance.

    It acts before the advantage: statistics are those of the kept rows. Rows without a reward are left out; a group
    with no more than m rewards is kept whole (and counted where m rows were asked for), and so is a group of one if m
    is not set. Advantages come with one degree of freedom less than m, so m = 1 is refused.

    Raises:
        InputError: m is larger than a group; the message names the group.
    """

    config_class = PODSConfig

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Returns the subset, in each group by descending reward; draws nothing from `generator`."""
        groups = groups_of(rollouts)
        kept = [group.rows[self._chosen(group)] for group in groups]
        short = sum(self.config.m is not None and len(group.rows) < self.config.m for group in groups)
        return subset(rollouts, kept, {"groups_short_of_rewards": float(short)})

    def _chosen(self, group: Group) -> torch.Tensor:
        m = half(len(group.rows)) if self.config.m is None else self.config.m
        if m > group.size:
            raise InputError(
                f"PODS: expected m of at most the {group.size} rollouts of a group, got m = {m} in group {group.name}"
            )
        if m >= len(group.rows):
            return torch.arange(len(group.rows))
        return max_variance_subset(group.rewards, m)
