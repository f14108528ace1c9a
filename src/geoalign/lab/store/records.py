"""How far a run is: noted in the mark of every checkpoint, and in `records.json` for what comes between them.

A resumed run goes back to the newest such moment: its logs are cut to the bytes that they had then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from geoalign.lab.store.json_files import read_json, write_json
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.store.seals import MARK, complete_checkpoints

# In the order in which a run passes through them.
STAGES = ("sft", "reward_model", "gold_model", "rl", "done")


@dataclass(frozen=True)
class Moment:
    """A run after `step` updates of a stage, with so many bytes in its two logs, which only grow."""

    stage: str
    step: int
    metrics: int = 0
    evaluation: int = 0

    @property
    def rank(self) -> tuple[int, int]:
        """Orders the moments of one run in time."""
        return STAGES.index(self.stage), self.step


def next_stage(folder: RunFolder, learned: Sequence[str]) -> str:
    """The stage that follows once the warm start is there: the first of the stages `learned`, which make a reward model
    and a gold model in folders of their names, whose model is not there yet; after them RL."""
    return next((name for name in learned if not (folder.checkpoints / name).is_dir()), "rl")


def made_models(folder: RunFolder) -> dict[str, Path]:
    """The model that each stage makes; each is complete if it exists."""
    models = (folder.warm_started, folder.reward_model, folder.gold_model, folder.final)
    return dict(zip(STAGES, models, strict=False))


def stage_checkpoints(folder: RunFolder) -> dict[str, Path]:
    """Where each stage's checkpoints are, in the order of the stages."""
    checkpoints = (folder.sft_checkpoints, folder.reward_model_checkpoints, folder.gold_model_checkpoints)
    return dict(zip(STAGES, (*checkpoints, folder.rl_checkpoints), strict=False))


def records_of(folder: RunFolder, stage: str) -> Callable[[int], dict[str, Any]]:
    """What is noted in the marks of a stage's checkpoints."""
    return lambda step: asdict(Moment(stage, step, _bytes(folder.metrics), _bytes(folder.evaluation)))


def note_records(folder: RunFolder, stage: str, step: int) -> None:
    """Writes `records.json`: what has come since the last checkpoint, such as an evaluation, counts from now on."""
    write_json(folder.records, records_of(folder, stage)(step))


def last_moment(folder: RunFolder) -> tuple[Moment, Path | None]:
    """The newest moment of a run, and the file that notes it; None for the start."""
    found = [(Moment(**read_json(folder.records)), folder.records)] if folder.records.is_file() else []
    for checkpoints in stage_checkpoints(folder).values():
        marks = [path / MARK for path in complete_checkpoints(checkpoints)[-1:]]
        found += [(Moment(**read_json(mark)["run"]), mark) for mark in marks]
    return max(found, key=lambda moment: moment[0].rank, default=(Moment("sft", 0), None))


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
