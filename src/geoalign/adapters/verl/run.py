"""The curator of one training: its state and generator, and where it computes."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from geoalign.adapters.step import Decision, decide
from geoalign.adapters.verl.settings import VerlSettings
from geoalign.curators.registry import make_curator
from geoalign.curators.session import STATE_FILE, CurationSession
from geoalign.types import Rollouts


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
        return self._thread.submit(decide, self.session, rollouts)

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
