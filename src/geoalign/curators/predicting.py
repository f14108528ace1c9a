"""A prediction of the reward from hidden states by fits that never saw it: what curators with a second score share."""

from __future__ import annotations

from typing import Any, TypeVar

from torch import Tensor

from geoalign.curators.base import Baseline
from geoalign.curators.denoise.ridge import RunningRidge
from geoalign.method.advantages import group_advantages
from geoalign.method.groups import GroupedRows, content_folds, group_centred
from geoalign.types import Rollouts

_Config = TypeVar("_Config")


class Predicting(Baseline[_Config]):
    """A curator that holds binary rewards against what a ridge on earlier batches' states predicts of them."""

    binary = True
    requires = ("hidden",)
    kept = ("ridge",)

    def __init__(self, config: _Config | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        of_any: Any = self.config
        self._ridge = RunningRidge(decay=of_any.decay)

    def _predict(self, rollouts: Rollouts, rows: GroupedRows) -> tuple[Tensor, Tensor, bool]:
        """Predicts the batch, then takes it in; the first batch is predicted by folds over its groups.

        Returns:
            [B] predictions of the rewards standardised within groups (0 where there is nothing to predict from), and
            [B] rows of groups with different rewards, both in sorted order on the CPU; and whether the predictions tell
            any of these rows apart.
        """
        hidden = rollouts.hidden
        assert hidden is not None
        group = rows.group.cpu()
        states = group_centred(hidden[rows.order.to(hidden.device)], group.to(hidden.device))
        y = group_advantages(rollouts.rewards.cpu().double()[rows.order.cpu()], group)
        judged = y != 0
        folds = content_folds(states.double().square().sum(dim=1).cpu(), group)
        values = self._ridge.predict(states, y, judged, folds).double().cpu()
        telling = values[judged]
        return values, judged, bool((telling != telling[:1]).any())
