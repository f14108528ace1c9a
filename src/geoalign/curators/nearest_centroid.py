"""Nearest centroid: a response is right if its state is nearer to earlier right ones than to earlier wrong ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator, hidden_states, identity
from geoalign.curators.batches import require_binary
from geoalign.curators.denoise.ridge import group_centred
from geoalign.curators.precision import full_precision
from geoalign.errors import ConfigError, InputError
from geoalign.method.advantages import group_advantages
from geoalign.method.groups import canonical_order, in_input_order
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts


def failure_margin(
    states: Float[Tensor, "b d"], success: Float[Tensor, " d"], failure: Float[Tensor, " d"]
) -> Float[Tensor, " b"]:
    """|x - success| - |x - failure|, Euclidean: above 0 where a state is nearer to the failures, 0 halfway."""
    return (states - success).norm(dim=1) - (states - failure).norm(dim=1)


@settings
class NearestCentroidConfig:
    """The settings of `NearestCentroid`."""

    type: ClassVar[str] = "nearest_centroid"

    decay: Annotated[float, Field(gt=0, le=1)] = setting(
        default=0.9, help="Weight of a batch in the centroids, relative to the next; 1: all alike, as in the paper."
    )


class NearestCentroid(Curator[NearestCentroidConfig]):
    """Replaces every reward by 1 or 0, whichever centroid of earlier batches is nearer (CLUE, arXiv 2510.01591).

    The centroids are the mean states of rows with reward 1 and with reward 0 in earlier batches, so the first batch
    stays as it is. The paper subtracts the state at the start of a response's reasoning from that at its end, layer by
    layer, and averages the distances over layers; here a state is centred within its group, which removes the prompt
    but also how good the group is as a whole, and there is one state a row. Groups of equal rewards are given verdicts,
    but enter no centroid: their centred states say nothing of right and wrong.

    `scores` are the distance to the centroid of the reward's own class minus that to the other's; rows above 0 are
    anomalous: their reward changes. Halfway a reward stays. NaN rewards stay NaN.

    Needs `hidden`.

    Raises:
        InputError: a reward is neither 0 nor 1 (nor NaN); `hidden` is missing or its width differs from earlier calls.
    """

    config_class = NearestCentroidConfig
    requires = ("hidden",)

    def __init__(self, config: NearestCentroidConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        # [2, d] decayed sums of states with reward 0 and 1, and [2] their numbers.
        self._sums: Tensor | None = None
        self._counts = torch.zeros(2)

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Judges the batch by the centroids, then takes it into them; draws nothing from `generator`."""
        require_binary(rollouts, by="NearestCentroid")
        hidden = hidden_states(rollouts, by="NearestCentroid")
        if not len(rollouts):
            return identity(rollouts)
        if self._sums is not None and self._sums.shape[1] != hidden.shape[1]:
            raise InputError(f"hidden: expected {self._sums.shape[1]} columns as earlier, got {hidden.shape[1]}")
        with full_precision(rollouts):
            rows = canonical_order(rollouts.rewards, rollouts.groups, hidden)
            states = group_centred(hidden[rows.order.to(hidden.device)], rows.group.to(hidden.device))
            rewards = rollouts.rewards[rows.order].to(hidden.device)
            margin = self._margin(states)
            self._add(states, rewards, rows.group.to(hidden.device))
            back = in_input_order(rows, rollouts.rewards.device)
            return _judged(rollouts, None if margin is None else back(margin))

    def state_dict(self) -> dict[str, Any]:
        """The decayed sums of states with either reward, and their numbers."""
        return {"sums": self._sums, "counts": self._counts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`."""
        if set(state) != {"sums", "counts"}:
            raise ConfigError(f"NearestCentroid state: expected the keys counts and sums, got {sorted(state)}")
        self._sums, self._counts = state["sums"], state["counts"]

    def _margin(self, states: Float[Tensor, "b d"]) -> Float[Tensor, " b"] | None:
        """`failure_margin` of the states; None before there is a centroid of either kind."""
        if self._sums is None or not bool((self._counts > 0).all()):
            return None
        failure, success = (self._sums / self._counts[:, None].to(self._sums)).to(states)
        return failure_margin(states, success, failure)

    def _add(self, states: Float[Tensor, "b d"], rewards: Float[Tensor, " b"], group: Tensor) -> None:
        unequal = group_advantages(rewards, group, scale="none") != 0
        kinds = torch.stack([unequal & (rewards == 0), unequal & (rewards == 1)]).to(states)
        earlier = 0 if self._sums is None else self.config.decay * self._sums.to(states)
        self._sums = kinds @ states + earlier
        self._counts = self.config.decay * self._counts + kinds.sum(dim=1).cpu()


def _judged(rollouts: Rollouts, margin: Float[Tensor, " b"] | None) -> Curation:
    """The curation with the nearer centroid's verdicts for rewards; unchanged without margins."""
    scored = ~rollouts.rewards.isnan()
    metrics = {"judged": float(margin is not None), "unscored_rewards": float((~scored).sum())}
    unchanged = identity(rollouts, metrics)
    if margin is None:
        return unchanged.with_metrics(changed_rewards=0.0)
    right = rollouts.rewards == 1
    scores = torch.where(right, margin, -margin).masked_fill(~scored, torch.nan)
    wrong = scores > 0
    rewards = torch.where(wrong, 1 - rollouts.rewards, rollouts.rewards)
    judged = replace(unchanged, rewards=rewards, scores=scores, anomalous=wrong)
    return judged.with_metrics(changed_rewards=float(wrong.sum()))
