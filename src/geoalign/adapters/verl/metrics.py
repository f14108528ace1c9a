"""What a curation adds to verl's trackers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from geoalign.adapters.placement import Placement
from geoalign.types import Rollouts

if TYPE_CHECKING:
    from geoalign.adapters.verl.run import Decision


def curation_metrics(
    decision: Decision, rollouts: Rollouts, placement: Placement, *, waited: float
) -> dict[str, float]:
    """The curator's metrics and the adapter's as `geoalign/<name>`, NaN left out.

    `raw_reward` is the mean reward as generated (verl's own reward metrics see the curated rows), `seconds` the
    curation's, `wait_seconds` the part of them for which verl had nothing else to do.
    """
    kept = placement.rewards[placement.kept]
    adapter = {
        "raw_reward": rollouts.rewards.nanmean().item(),
        "curated_reward": kept.nanmean().item() if len(kept) else math.nan,
        "replaced_rows": float(placement.replaced.sum()),
        "dropped_rows": float((~placement.kept).sum()),
        "seconds": decision.seconds,
        "wait_seconds": waited,
    }
    values = {**decision.curation.metrics, **adapter}
    return {f"geoalign/{name}": float(value) for name, value in values.items() if not math.isnan(value)}
