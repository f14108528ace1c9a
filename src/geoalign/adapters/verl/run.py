"""The curator of one training: its state and generator, and where it computes."""

from __future__ import annotations

import math
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from geoalign.adapters.placement import Placement
from geoalign.adapters.verl.settings import VerlSettings
from geoalign.curators.registry import make_curator
from geoalign.curators.session import STATE_FILE, CurationSession
from geoalign.types import Curation, Rollouts


@dataclass(frozen=True, eq=False)
class Decision:
    """A curation, and the seconds that it took."""

    curation: Curation
    seconds: float


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
        "unscored_rows": float(rollouts.rewards.isnan().sum()),
        "seconds": decision.seconds,
        "wait_seconds": waited,
    }
    values = {**decision.curation.metrics, **adapter}
    return {f"geoalign/{name}": float(value) for name, value in values.items() if not math.isnan(value)}


class CuratorRun:
    """Curates the batches of one training in order.

    One thread decides, so that the caller may go on with work that does not touch the curator; nothing of it draws from
    the global generators of the driver, which shuffle verl's data.

    Args:
        settings: `+geoalign`.
    """

    def __init__(self, settings: VerlSettings) -> None:
        self.session = CurationSession(make_curator(settings.curator), seed=settings.seed)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="geoalign")

    def start(self, rollouts: Rollouts) -> Future[Decision]:
        """Starts to curate a batch; the next may be started when this one's result was taken."""
        self.session.calls += 1
        return self._thread.submit(self._decide, rollouts)

    def save(self, folder: Path) -> None:
        """Writes state, generator and number of calls to `folder`."""
        self.session.save(folder / STATE_FILE)

    def load(self, folder: Path) -> None:
        """Restores what `save` wrote."""
        self.session.load(
            folder / STATE_FILE,
            setting="trainer.resume_mode",
            otherwise="set the +geoalign.curator.type that it was saved with; or, to start curating in the middle of a "
            "training that did not, give its model as actor_rollout_ref.model.path and trainer.resume_mode=disable",
        )

    def _decide(self, rollouts: Rollouts) -> Decision:
        started = time.perf_counter()
        curation = self.session.curate(rollouts)
        return Decision(curation, time.perf_counter() - started)
