"""One run folder, watched: its settings, its history so far, its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.lab.store.files import LOCK
from geoalign.lab.store.logs import Evaluation
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.store.seals import noted_steps
from geoalign.lab.store.tail import GrowingLines
from geoalign.lab.store.values import number, whole
from geoalign.lab.watch.history import History, Step
from geoalign.lab.watch.status import Status, run_status

# Where each stage's settings and checkpoints are.
_SECTIONS = {"sft": "sft", "reward_model": "reward_model", "gold_model": "gold_model", "rl": "grpo"}
_CHECKPOINTS = {
    "sft": "sft_checkpoints",
    "reward_model": "reward_model_checkpoints",
    "gold_model": "gold_model_checkpoints",
    "rl": "rl_checkpoints",
}


@dataclass(frozen=True)
class News:
    """What one look brought.

    Attributes:
        restarted: the files were cut back or written anew; what follows is all that they hold.
    """

    steps: list[Step]
    evaluations: list[Evaluation]
    restarted: bool


class WatchedRun:
    """A run folder that is looked at again and again; each look reads only what is new.

    Attributes:
        history: what its files hold.
        curator: the curator's name; "unknown" before the settings are there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = RunFolder(folder)
        self.history = History()
        self.curator = "unknown"
        self._metrics = GrowingLines(self.folder.metrics)
        self._evaluations = GrowingLines(self.folder.evaluation)
        self._config: dict[str, Any] | None = None
        self._totals: dict[str, int] = {}
        self._seen = False

    def look(self) -> News:
        """Reads what has come since the last look.

        Raises:
            RunFolderError: the settings are unreadable.
        """
        metrics, evaluations = self._metrics.read(), self._evaluations.read()
        self._seen = self._seen or self.folder.metrics.is_file() or self.folder.started()
        restarted = self._forget_what_was_cut()
        if self._config is None and self.folder.started():
            self._config = self.folder.read_config()
            self.curator = _curator(self._config)
        return News(self.history.add_metrics(metrics), self.history.add_evaluations(evaluations), restarted)

    def _forget_what_was_cut(self) -> bool:
        """Forgets what the files no longer say; of a run that is gone, what was seen is kept."""
        cut = [tail for tail in (self._metrics, self._evaluations) if tail.restarted]
        if not cut or not self.folder.root.is_dir():
            return False
        if self._metrics.restarted:
            self.history.stages, self.history.current, self._totals = {}, None, {}
            self.history.malformed = self.history.unusable = 0
        if self._evaluations.restarted:
            self.history.evaluations = []
        for tail in cut:
            tail.restarted = False
        return True

    @property
    def left_out(self) -> int:
        """Lines that could not be used."""
        return self.history.malformed + self._metrics.unreadable + self._evaluations.unreadable

    def status(self) -> Status:
        """The state of the run now."""
        return run_status(
            self.folder.root,
            started=self._seen,
            finished=self.folder.finished(),
            files=(self.folder.metrics, self.folder.evaluation),
        )

    def total_steps(self, stage: str) -> int | None:
        """Updates of a stage: by its settings, else by its newest checkpoint, else by its epochs; None if unknown."""
        if stage not in _SECTIONS:
            return None
        settings = (self._config or {}).get(_SECTIONS[stage])
        settings = settings if isinstance(settings, Mapping) else {}
        stated = whole(settings.get("max_steps"), 1)
        if stated is not None:
            return stated
        if stage not in self._totals:
            noted = noted_steps(getattr(self.folder, _CHECKPOINTS[stage]))
            if noted is not None:
                self._totals[stage] = noted
        return self._totals.get(stage) or self._by_epochs(stage, settings.get("num_train_epochs"))

    def _by_epochs(self, stage: str, epochs: Any) -> int | None:
        seen = self.history.stages.get(stage)
        done = seen.newest("epoch") if seen else None
        epochs = number(epochs)
        if seen is None or not done or done < 0 or epochs is None:
            return None
        # The logged epoch is rounded: no run is over before its last line.
        return max(seen.step, round(seen.newest_of["epoch"] * epochs / done))

    def seconds_left(self, stage: str) -> float | None:
        """Seconds to the stage's last update at the pace of the last ones; None where steps or pace are unknown."""
        seen, total = self.history.stages.get(stage), self.total_steps(stage)
        pace = seen.seconds_per_step() if seen else None
        return None if seen is None or total is None or pace is None else max(0, total - seen.step) * pace


def _curator(config: Mapping[str, Any]) -> str:
    curator = config.get("curator")
    return str(curator.get("type", "unknown")) if isinstance(curator, Mapping) else "unknown"


def check_run_folder(folder: Path) -> None:
    """Raises RunFolderError where a folder has content, and none of it is a run's."""
    run = RunFolder(folder)
    if not run.has_content() or any(path.exists() for path in (run.versions, run.config, run.metrics)):
        return
    names = sorted(item.name for item in folder.iterdir() if item.name != LOCK)
    raise RunFolderError(
        f"{folder}: expected the folder of a run or a comparison, got one with {', '.join(names[:3])} and neither "
        f"{run.config.name} nor compare.yaml"
    )
