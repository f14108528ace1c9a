"""The curator of one training: its state and generator, and where it computes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from torch import Tensor

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
        call_worker: runs a function of plain arguments in the process of actor worker 0 and returns its result; used
            with `place: worker` only.
    """

    def __init__(self, settings: VerlSettings, call_worker: Callable[..., Any] | None = None) -> None:
        self.session = CurationSession(make_curator(settings.curator), seed=settings.seed)
        self._settings = settings
        self._call_worker = call_worker
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
        if self._settings.place == "worker" and self._call_worker is not None:
            generator = self.session.generator
            curation, state, drawn = self._call_worker(
                curate_remotely,
                self._settings.curator,
                self.session.curator.state_dict(),
                generator.get_state(),
                rollouts,
            )
            self.session.curator.load_state_dict(state)
            generator.set_state(drawn)
        else:
            curation = self.session.curate(rollouts)
        return Decision(curation, time.perf_counter() - started)


def curate_remotely(
    settings: Any, state: dict[str, Any], drawn: Tensor, rollouts: Rollouts, device: str = "cpu"
) -> tuple[Curation, dict[str, Any], Tensor]:
    """One curation on another process's device; the state of curator and generator travel there and back.

    Returns:
        the curation, the curator's state and the generator's, all on the CPU.
    """
    session = CurationSession(make_curator(settings), seed=0)
    session.curator.load_state_dict(state)
    session.generator.set_state(drawn)
    curation = session.curate(_moved(rollouts, device))
    return _moved(curation, "cpu"), _state_to_cpu(session.curator.state_dict()), session.generator.get_state()


def _moved(record: Any, device: str) -> Any:
    """A record of tensors with each of them on `device`; details, which nobody asked for, left out."""
    tensors = {
        item.name: value.to(device)
        for item in fields(record)
        if isinstance(value := getattr(record, item.name), Tensor)
    }
    return replace(record, **tensors)


def _state_to_cpu(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, dict):
        return {key: _state_to_cpu(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_state_to_cpu(item) for item in value]
    return value
