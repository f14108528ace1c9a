"""Going on with a run: the settings must be the same, and what followed the last checkpoint is cut away."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.experiments.run_folder import RunFolder
from geoalign.experiments.same_settings import check_same_settings as check_same_settings
from geoalign.training.checkpoints import checkpoint_step, latest_complete
from geoalign.training.files import keep_lines, read_lines

# What may stand in a folder whose run was killed before it had written its first two files. No config.yaml: alone it is
# more likely a user's own file than ours.
_BEFORE_START = {".lock", "versions.json"}


def check_vacant(folder: RunFolder, *, resume: bool) -> None:
    """Raises RunFolderError unless a run may start or go on in this folder.

    An absent folder, an empty one, and one whose run was killed in its first moment are vacant. A started run needs
    `resume`; a folder of other files is refused either way.
    """
    if folder.started():
        folder.read_versions()
        if not resume and not folder.finished():
            raise RunFolderError(
                f"{folder.root}: expected a new folder, got one with an unfinished run: "
                f"go on with it by --resume, or choose another --output"
            )
        return
    if folder.root.exists() and not folder.root.is_dir():
        raise RunFolderError(f"{folder.root}: expected a folder, got a file")
    if not folder.root.is_dir():
        return
    others = [
        item.name for item in folder.root.iterdir() if item.name not in _BEFORE_START and not item.name.endswith(".tmp")
    ]
    if others:
        raise RunFolderError(
            f"{folder.root}: expected a new or empty folder or that of a run, got one with {sorted(others)[0]} "
            f"and no run: choose another --output"
        )


def check_same_processes(folder: RunFolder, count: int) -> None:
    """Raises RunFolderError unless the run was started with so many processes.

    Checkpoints hold one state of the random generators per process, and the batch is made of their shares.
    """
    started_with = folder.read_versions().get("processes", 1)
    if started_with != count:
        raise RunFolderError(f"{folder.root}: expected {started_with} processes, as the run was started, got {count}")


def cut_back(folder: RunFolder) -> None:
    """Removes everything that a resumed run will write again, so that nothing stands twice.

    Lines of a finished stage stay. Those of the stage that was under way stay up to its last complete checkpoint;
    incomplete checkpoints and half-written files go.
    """
    for path in folder.root.rglob("*.tmp"):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    warm = folder.warm_started.is_dir()
    sft_step = _last_step(folder.sft_checkpoints)
    model_step = _last_step(folder.reward_model_checkpoints) if warm else 0
    learned = folder.reward_model.is_dir()
    rl_step = _last_step(folder.rl_checkpoints) if warm else 0
    done = warm and folder.final.is_dir()

    def keep_metrics(line: dict[str, Any]) -> bool:
        if line.get("stage") == "sft":
            return warm or line["step"] <= sft_step
        if line.get("stage") == "reward_model":
            # The line of the held-out pairs is written after the last checkpoint, when all is trained.
            heldout = any(key.startswith("heldout/") for key in line)
            return learned or (warm and line["step"] <= model_step and not heldout)
        return done or (warm and line["step"] <= rl_step)

    def keep_evaluation(line: dict[str, Any]) -> bool:
        if line.get("stage") == "before_rl":
            return warm
        return done or (warm and line.get("stage") == "rl" and line["step"] <= rl_step)

    keep_lines(folder.metrics, keep_metrics)
    keep_lines(folder.evaluation, keep_evaluation)
    # A generation made after N updates is of step N: it follows the checkpoint of step N, which therefore lacks it.
    folder.drop_steps(lambda step: done or step < rl_step)


def evaluated(folder: RunFolder, stage: str, sets: int) -> bool:
    """True if a stage's evaluation stands complete in `evaluation.jsonl`."""
    lines = [line for line in read_lines(folder.evaluation) if line.get("stage") == stage]
    return bool(lines) and len(lines) >= sets


def drop_evaluation(folder: RunFolder, stage: str) -> None:
    """Cuts the lines of a stage's incomplete evaluation away."""
    keep_lines(folder.evaluation, lambda line: line.get("stage") != stage)


def _last_step(checkpoints: Path) -> int:
    latest = latest_complete(checkpoints)
    return checkpoint_step(latest) if latest else 0
