"""A prediction of the reward from hidden states by fits that never saw it: what curators with a second score share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from geoalign.curators.denoise.ridge import RunningRidge
from geoalign.errors import ConfigError
from geoalign.method.advantages import group_advantages
from geoalign.method.groups import GroupedRows, content_folds, group_centred


@dataclass(frozen=True, eq=False)
class Predicted:
    """What is predicted of B rows in sorted order; on the CPU, in float64.

    Attributes:
        rewards: [B] as observed; NaN where unscored.
        standardised: [B] within groups; 0 in groups of one or of equal rewards, and where unscored.
        values: [B] predictions of the standardised rewards; all 0 where there is nothing to predict from.
    """

    rewards: Float[Tensor, " b"]
    standardised: Float[Tensor, " b"]
    values: Float[Tensor, " b"]

    @property
    def judged(self) -> Bool[Tensor, " b"]:
        """[B] rows of groups with different rewards."""
        return self.standardised != 0

    @property
    def varies(self) -> bool:
        """Whether the predictions tell any of these rows apart."""
        values = self.values[self.judged]
        return len(values) > 0 and bool((values != values[0]).any())


class PastPrediction:
    """A ridge regression on earlier batches; the first batch is predicted by folds over its groups, as in `Denoise`."""

    def __init__(self, *, decay: float) -> None:
        self._ridge = RunningRidge(decay=decay)

    def __call__(self, rewards: Float[Tensor, " b"], hidden: Float[Tensor, "b d"], rows: GroupedRows) -> Predicted:
        """Predicts the batch, then takes it in.

        Args:
            rewards: in input order, as are the states.
            rows: the batch in sorted order.

        Raises:
            InputError: the states are not as wide as earlier ones.
        """
        order, group = rows.order.to(hidden.device), rows.group.to(hidden.device)
        states = group_centred(hidden[order], group)
        rewards = rewards.cpu().double()[rows.order.cpu()]
        y = group_advantages(rewards, rows.group.cpu())
        judged = y != 0
        folds = content_folds(states.double().square().sum(dim=1).cpu(), rows.group.cpu())
        values = self._ridge.predict(states, y, judged, folds)
        return Predicted(rewards, y, values.double().cpu())

    def state_dict(self) -> dict[str, Any]:
        """The fit."""
        return {"ridge": self._ridge.state_dict()}

    def load_state_dict(self, state: dict[str, Any], *, by: str) -> None:
        """Restores `state_dict`; `by` names the curator.

        Raises:
            ConfigError: the state is of another curator.
        """
        if set(state) != {"ridge"}:
            raise ConfigError(f"{by} state: expected the key ridge, got {sorted(state)}")
        self._ridge.load_state_dict(state["ridge"])
