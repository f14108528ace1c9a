"""Control for continuous rewards: a group's extreme reward that two different responses share."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator
from geoalign.curators.batches import canonical_rows
from geoalign.curators.rectifying import Flags, Strategy, rectify
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts

# Groups with fewer different rewards are not judged: where rewards have two values every extreme is shared.
_DIFFERENT = 3


def tied_extremes(
    rewards: Float[Tensor, " n"], response: Int[Tensor, " n"], tolerance: float
) -> Bool[Tensor, " n"] | None:
    """Which of a group's rewards lie at its highest or lowest one together with that of another response.

    A reward lies at an extreme if it is no further from it than `tolerance` times the group's range. None where fewer
    than three rewards differ by more than that: such a group is not judged.

    Args:
        rewards: [N] of one group, ascending, none of them NaN.
        response: [N] rows of equal number gave the same response.
    """
    if not len(rewards):
        return None
    values = rewards.double()
    reach = tolerance * float(values[-1] - values[0])
    if int((values.diff() > reach).sum()) + 1 < _DIFFERENT:
        return None
    tied = torch.zeros(len(values), dtype=torch.bool)
    for extreme in (values[0], values[-1]):
        near = (values - extreme).abs() <= reach
        if len(response[near].unique()) > 1:
            tied |= near
    return tied


@settings
class TieDetectorConfig:
    """The settings of `TieDetector`."""

    type: ClassVar[str] = "tie_detector"

    tolerance: Annotated[float, Field(ge=0, lt=0.5)] = setting(
        default=1e-3, help="Rewards are equal up to this share of their group's range."
    )
    strategy: Strategy = setting(default="zero_weight", help="What happens to tied rollouts.")


class TieDetector(Curator[TieDetectorConfig]):
    """Flags the rows whose reward is a group's extreme and also that of a different response; rewards alone decide.

    Rewards of different responses are hardly ever equal by chance where they are continuous. A corruption that sends
    rewards to the opposite extreme of their group makes such ties, so this finds its traces: the control that shows how
    much of what another method finds is due to the kind of corruption. Both sides of a tie are flagged: nothing says
    which is the copy. Scores are 1 for tied rows and 0 for others; groups with fewer than three different rewards,
    binary ones for example, are unscored and unchanged.

    Heeds `response_keys`: without them every row is a response of its own.
    """

    config_class = TieDetectorConfig
    optional: tuple[str, ...] = ("response_keys",)

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Flags the ties and rectifies; draws from `generator` with `strategy` replace and amplify only."""
        rows = canonical_rows(rollouts)
        order = rows.order.cpu()
        keys = torch.arange(len(rollouts)) if rollouts.response_keys is None else rollouts.response_keys.cpu()
        rewards, response = rollouts.rewards.cpu()[order], keys[order]
        scores = torch.full((len(rollouts),), torch.nan)
        for members in torch.arange(len(rollouts)).split(rows.sizes.tolist()) if len(rollouts) else ():
            scored = members[~rewards[members].isnan()]
            tied = tied_extremes(rewards[scored], response[scored], self.config.tolerance)
            if tied is not None:
                scores[scored] = tied.float()
        scores = scores.to(rows.order.device)
        flagged = scores == 1
        return rectify(
            rollouts,
            rows,
            scores,
            Flags(suspect=flagged, anomalous=flagged, stable=scores == 0),
            strategy=self.config.strategy,
            observing=False,
            generator=generator,
            metrics={
                "scored_rollouts": float((~scores.isnan()).sum()),
                "unscored_rewards": float(rollouts.rewards.isnan().sum()),
            },
        )
