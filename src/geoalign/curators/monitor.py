"""A curator that only watches: another one's scores and metrics, and a training that stays as it is."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, ClassVar

import torch

from geoalign.curators.base import Curator, identity
from geoalign.curators.registry import CuratorSection, default_curator, make_curator
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts

_LOG = logging.getLogger(__name__)


@settings
class MonitorConfig:
    """The settings of `Monitor`; in YAML `curator` is a section of its own, with its `type`."""

    type: ClassVar[str] = "monitor"

    curator: CuratorSection = setting(
        default_factory=lambda: default_curator("denoise"), help="The curator that watches."
    )
    bounds: dict[str, float] = setting(
        default_factory=dict,
        help="Metric to the value that it should not exceed; of one with an interval the lower end counts.",
    )


class Monitor(Curator[MonitorConfig]):
    """The scores, flags and metrics of another curator; no row, reward or weight is changed.

    A metric above its bound is logged as a warning and counted in `alarms`. One that is NaN, or that the inner curator
    does not give in this batch, raises none.

    Args:
        curator: as a keyword, a curator or its settings.
    """

    kept = ("inner",)

    def __init__(self, config: MonitorConfig | None = None, **settings: Any) -> None:
        inner = settings.get("curator")
        if isinstance(inner, Curator):
            settings["curator"] = inner.config
        super().__init__(config, **settings)
        self._inner = inner if isinstance(inner, Curator) else make_curator(self.config.curator)
        self.requires, self.optional = self._inner.requires, self._inner.optional

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """What the inner curator says of the batch."""
        seen = self._inner.curate(rollouts, generator=generator, details=details)
        alarms = 0
        for name, bound in self.config.bounds.items():
            value = seen.metrics.get(f"{name}_low", seen.metrics.get(name, torch.nan))
            if value > bound:
                alarms += 1
                _LOG.warning("%s is %.3g, above %.3g", name, value, bound)
        plain = identity(rollouts, {**seen.metrics, "alarms": float(alarms)})
        return replace(plain, scores=seen.scores, anomalous=seen.anomalous, details=seen.details)
