"""S-GRPO: groups whose binary rewards could be flips alone count for nothing."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator
from geoalign.curators.batches import mean_of, require_binary, reweighted
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts

# The paper's constant under both roots.
EPSILON = 1e-8


def noise_aware_weight(success: Float[Tensor, " g"], flip_rate: float) -> Float[Tensor, " g"]:
    """The factor on the std-normalised advantages of groups with observed success rates q, under flips of rate p < 1/2.

    t = clip((q - p) / (1 - 2p), 0, 1) is the success rate behind the flips; the weight
    (1 - 2p) t (1 - t) / (sqrt(q (1 - q) + 1e-8) sqrt(t (1 - t) + 1e-8)) is 0 where the flips alone explain what came.
    """
    success = success.double()
    clean = ((success - flip_rate) / (1 - 2 * flip_rate)).clamp(0, 1)
    spread, observed = clean * (1 - clean), success * (1 - success)
    weight = (1 - 2 * flip_rate) * spread / (torch.sqrt(observed + EPSILON) * torch.sqrt(spread + EPSILON))
    return weight.float()


@settings
class SGRPOConfig:
    """The settings of `SGRPO` (arXiv 2508.05928)."""

    type: ClassVar[str] = "s_grpo"

    flip_rate: Annotated[float, Field(ge=0, lt=0.5)] = setting(
        default=0.1, help="Assumed share p of rewards that are flipped."
    )


class SGRPO(Curator[SGRPOConfig]):
    """Noise-aware GRPO for binary rewards (arXiv 2508.05928): weighs each group by what its success rate says.

    With an assumed flip rate p and k of n rewards 1: t = clip((k/n - p)/(1 - 2p), 0, 1), and the weight on the
    std-normalised advantages is the one that is optimal under such flips. It acts after the advantage, as `weights`.

    Raises:
        InputError: a reward is neither 0 nor 1 (nor NaN).
    """

    config_class = SGRPOConfig

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Weighs the groups; draws nothing from `generator`."""
        require_binary(rollouts, by="SGRPO")
        rewards = rollouts.rewards.cpu().double()
        scored = ~rewards.isnan()
        _, member = rollouts.groups.cpu().unique(return_inverse=True)
        empty = rewards.new_zeros(int(member.max()) + 1 if len(member) else 0)
        count = empty.index_add(0, member, scored.double())
        success = empty.index_add(0, member, rewards.nan_to_num(0.0)) / count.clamp(min=1)
        weights = noise_aware_weight(success, self.config.flip_rate)
        metrics = {"group_weight": mean_of(weights.tolist()), "zero_weight_groups": float((weights == 0).sum())}
        return reweighted(rollouts, weights[member], metrics)
