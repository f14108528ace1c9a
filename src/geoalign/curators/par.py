"""PAR: rewards shaped by how they compare with those of reference responses."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator, identity
from geoalign.curators.precision import full_precision
from geoalign.errors import InputError
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts


@settings
class PARConfig:
    """The settings of `PAR` (arXiv 2502.18770)."""

    type: ClassVar[str] = "par"

    slope: Annotated[float, Field(gt=0)] = setting(default=1.0, help="Slope k of the sigmoid.")


def sigmoid_shaped(
    rewards: Float[Tensor, " b"], references: Float[Tensor, "b m"], *, slope: float
) -> Float[Tensor, " b"]:
    """r' = mean over m of sigmoid(slope (r - ref_m)): the mean of sigmoids, not the sigmoid of the mean.

    NaN references are left out of the mean; a NaN reward, or a row of NaN references alone, gives NaN.
    """
    return torch.sigmoid(slope * (rewards[:, None] - references)).nanmean(dim=1)


class PAR(Curator[PARConfig]):
    """Preference as reward (arXiv 2502.18770): r' = mean over references m of sigmoid(slope (r - ref_m)).

    Needs `reference_rewards` [B, M]: the rewards of M responses of the reference (warm-started) model to the row's
    prompt; NaN ones are left out of the mean. It acts before the advantage.

    For x = slope (r - ref_m) near zero the sigmoid is 1/2 + x/4, up to x^2 / 12 of its slope: 1e-4 at differences of
    0.035, those of ArmoRM's scores in the paper. There PAR with slope 1 changes rewards affinely, which is plain GRPO.

    Raises:
        InputError: there are no reference rewards, none for a row that has a reward, or an infinite one.
    """

    config_class = PARConfig
    requires = ("reference_rewards",)

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Shapes the rewards; draws nothing from `generator`."""
        references = _references(rollouts)
        with full_precision(rollouts):
            precision = torch.promote_types(rollouts.rewards.dtype, torch.float32)
            shaped = sigmoid_shaped(
                rollouts.rewards.to(precision),
                references.to(rollouts.rewards.device, precision),
                slope=self.config.slope,
            )
        metrics = {
            "shaped_reward": float(shaped.nanmean()),
            "references": float((~references.isnan()).sum(1).float().mean()) if len(references) else torch.nan,
            "unscored_rewards": float(rollouts.rewards.isnan().sum()),
        }
        return replace(identity(rollouts, metrics), rewards=shaped)


def _references(rollouts: Rollouts) -> Float[Tensor, "b m"]:
    rollouts.require("reference_rewards", by="PAR")
    references = rollouts.reference_rewards
    assert references is not None
    if references.isinf().any():
        row = int(references.isinf().any(dim=1).nonzero()[0])
        raise InputError(f"PAR: expected finite reference_rewards or NaN, got an infinite one in row {row}")
    without = references.isnan().all(dim=1) & ~rollouts.rewards.isnan().to(references.device)
    if without.any():
        row = int(without.nonzero()[0])
        raise InputError(
            f"PAR: expected at least one reference reward per row, got none of {references.shape[1]} in row {row} "
            f"(group {int(rollouts.groups[row])})"
        )
    return references
