"""The folder of one run: its paths, and files written so that a kill at any moment leaves it readable.

Small files are written under a temporary name and renamed; lines are appended whole; what follows a checkpoint is cut
away when a run is resumed from it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import geoalign
from geoalign.errors import RunFolderError
from geoalign.files.durable import HALF_WRITTEN, sync_folder, sync_tree, write_atomically
from geoalign.files.json_files import read_json, read_written_yaml, write_json
from geoalign.lab.runs.resuming import package_versions
from geoalign.pretrained.from_pretrained import FINAL_MODEL
from geoalign.settings.yaml_text import dump_yaml

SCHEMA_VERSION = 1
# Beside a reward model: what it gets right on the pairs held out.
ACCURACY_FILE = "pair_accuracy.json"


ROLLOUTS, DETAILS = ".parquet", ".safetensors"
_STEP = re.compile(r"step-[0-9]+", re.ASCII)


class RunFolder:
    """Paths and atomic writes of one run folder (schema version 1); models there are complete if they exist."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        self.config = self.root / "config.yaml"
        self.versions = self.root / "versions.json"
        self.metrics = self.root / "metrics.jsonl"
        self.evaluation = self.root / "evaluation.jsonl"
        self.summary = self.root / "summary.json"
        self.records = self.root / "records.json"
        self.references = self.root / "reference_rewards.json"
        self.rollouts = self.root / "rollouts"
        self.details = self.root / "details"
        self.responses = self.root / "responses"
        self.checkpoints = self.root / "checkpoints"
        self.rl_checkpoints = self.checkpoints / "rl"
        # Models: each is complete if it exists.
        self.warm_started = self.checkpoints / "warm_start"
        self.reward_model = self.checkpoints / "reward_model"
        self.gold_model = self.checkpoints / "gold_model"
        self.final = self.root / FINAL_MODEL
        self.report = self.root / "report.html"
        self.figures = self.root / "figures"

    def started(self) -> bool:
        return self.versions.is_file() and self.config.is_file()

    def finished(self) -> bool:
        """True if a run here is finished: its summary is written last of all but the report."""
        return self.started() and self.summary.is_file()

    def initialise(
        self,
        config: Mapping[str, Any],
        *,
        threads: int,
        processes: int = 1,
        shared: Path | None = None,
        bf16: bool = False,
    ) -> None:
        """Writes `versions.json`, then `config.yaml`; a folder with both is a started run.

        `shared` is the run folder whose warm start this run starts from; `bf16`: a CPU computes in bfloat16.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        start = {} if shared is None else {"shared": str(shared)}
        how = {"threads": threads, "processes": processes, "bf16": bf16}
        write_json(self.versions, {"schema_version": SCHEMA_VERSION, **package_versions(), **how, **start})
        write_atomically(self.config, dump_yaml(dict(config)))

    def read_versions(self) -> dict[str, Any]:
        """What made the run; RunFolderError where its folder is of another schema version."""
        versions = read_json(self.versions)
        schema = versions["schema_version"]
        if schema != SCHEMA_VERSION:
            raise RunFolderError(f"{self.versions}: schema_version: expected {SCHEMA_VERSION}, got {schema!r}")
        return versions

    def read_config(self) -> dict[str, Any]:
        data, _ = read_written_yaml(self.config)
        return data

    def rollouts_of(self, step: int) -> Path:
        return self.rollouts / f"step-{step:06d}.parquet"

    def details_of(self, step: int) -> Path:
        return self.details / f"step-{step:06d}.safetensors"

    def responses_of(self, step: int) -> Path:
        """The rows of the evaluation at a step."""
        return self.responses / f"step-{step:06d}.parquet"

    def drop_steps(self, first: int) -> None:
        """Removes rollout and detail files from a step on; what others have put beside them stays."""
        for folder, suffix in ((self.rollouts, ROLLOUTS), (self.details, DETAILS)):
            for step, path in step_files(folder, suffix):
                if step >= first:
                    path.unlink()

    def drop_half_written(self) -> None:
        """Removes what a killed run has left half-written, under names of its own."""
        for own in (
            "*.json",
            "*.jsonl",
            "*.yaml",
            "*.html",
            "rollouts/step-*",
            "details/step-*",
            "responses/step-*",
            "checkpoints/*",
        ):
            for path in sorted(self.root.glob(own + HALF_WRITTEN)):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()


def step_files(folder: Path, suffix: str) -> list[tuple[int, Path]]:
    """Files step-<number><suffix> by rising step; a writer's temporary files have other names."""
    paths = [path for path in folder.glob(f"step-*{suffix}") if _STEP.fullmatch(path.name.removesuffix(suffix))]
    return sorted((int(path.stem.removeprefix("step-")), path) for path in paths)


MARK = "COMPLETE.json"
CHECKPOINT = "checkpoint-"
_TRAINER_STATE = "trainer_state.json"


def mark_complete(folder: Path, *, step: int = 0, run: Mapping[str, Any] | None = None) -> None:
    """Brings every file of a folder to the disk, then writes its mark; `run` is how far the run was then (`Moment`)."""
    sync_tree(folder)
    write_json(folder / MARK, {"step": step, "geoalign": geoalign.__version__, "run": run or {}})


def checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"{CHECKPOINT}{step}"


def checkpoint_step(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix(CHECKPOINT))


def is_checkpoint(path: Path) -> bool:
    return path.name.startswith(CHECKPOINT) and path.name.removeprefix(CHECKPOINT).isdigit()


def is_last_checkpoint(checkpoint: Path) -> bool:
    """True if a checkpoint was written after a stage's last update.

    transformers makes one update more when it resumes from such a checkpoint: there is nothing to resume.
    """
    state = read_json(checkpoint / _TRAINER_STATE)
    return bool(state["global_step"] >= state["max_steps"])


def complete_checkpoints(folder: Path) -> list[Path]:
    """The complete checkpoints of a stage, oldest first."""
    paths = [path for path in folder.glob(f"{CHECKPOINT}*") if is_checkpoint(path) and (path / MARK).is_file()]
    return sorted(paths, key=checkpoint_step)


def latest_complete(folder: Path) -> Path | None:
    """The newest complete checkpoint of a stage; None where there is none. Incomplete ones are removed."""
    prune(folder, keep=None)
    return next(reversed(complete_checkpoints(folder)), None)


def prune(folder: Path, keep: int | None) -> None:
    """Removes every checkpoint of a stage but the newest `keep` complete ones (None: all of these stay).

    What an earlier call was killed over goes as well: whole checkpoints that it had not come to, and halves of others.
    No checkpoint may be in the making.
    """
    complete = complete_checkpoints(folder)
    kept = complete if keep is None else complete[-keep:]
    for path in [*folder.glob(f"{CHECKPOINT}*")]:
        if is_checkpoint(path) and path not in kept:
            remove_checkpoint(path)


def remove_checkpoint(path: Path) -> None:
    """Removes a checkpoint; the mark goes first, on the disk too, so half of one never counts. Of a link only the link
    goes."""
    if path.is_symlink():
        path.unlink()
        return
    (path / MARK).unlink(missing_ok=True)
    sync_folder(path)
    shutil.rmtree(path)


# In the order in which a run passes through them.
STAGES = ("sft", "reward_model", "gold_model", "rl", "done")


@dataclass(frozen=True)
class Moment:
    """Where to resume: the stage, the updates made in it, and the length in bytes to cut each of the two logs to."""

    stage: str
    step: int
    metrics: int = 0
    evaluation: int = 0

    @property
    def rank(self) -> tuple[int, int]:
        return STAGES.index(self.stage), self.step


def next_stage(folder: RunFolder, learned: Sequence[str]) -> str:
    """The stage that follows once the warm start is there: the first of the stages `learned`, which make a reward model
    and a gold model in folders of their names, whose model is not there yet; after them RL."""
    return next((name for name in learned if not (folder.checkpoints / name).is_dir()), "rl")


def models_by_stage(folder: RunFolder) -> dict[str, Path]:
    """The model that each stage makes; each is complete if it exists."""
    models = (folder.warm_started, folder.reward_model, folder.gold_model, folder.final)
    return dict(zip(STAGES, models, strict=False))


def stage_checkpoints(folder: RunFolder) -> dict[str, Path]:
    """Where each stage's checkpoints are, in the order of the stages."""
    names = ("sft", "reward_model_training", "gold_model_training", "rl")
    return {stage: folder.checkpoints / name for stage, name in zip(STAGES, names, strict=False)}


def records_of(folder: RunFolder, stage: str) -> Callable[[int], dict[str, Any]]:
    """The function that gives the moment of a step of a stage, as the marks of its checkpoints hold it."""
    return lambda step: asdict(Moment(stage, step, _bytes(folder.metrics), _bytes(folder.evaluation)))


def note_records(folder: RunFolder, stage: str, step: int) -> None:
    """Writes `records.json`: what has come since the last checkpoint, such as an evaluation, counts from now on."""
    write_json(folder.records, records_of(folder, stage)(step))


def last_moment(folder: RunFolder) -> tuple[Moment, Path | None]:
    """The newest moment of a run, and the file that notes it; None for the start."""
    newest: tuple[Moment, Path | None] = (Moment("sft", 0), None)
    if folder.records.is_file():
        newest = (Moment(**read_json(folder.records)), folder.records)
    for checkpoints in stage_checkpoints(folder).values():
        for checkpoint in complete_checkpoints(checkpoints)[-1:]:
            mark = checkpoint / MARK
            moment = Moment(**read_json(mark)["run"])
            if newest[1] is None or moment.rank > newest[0].rank:
                newest = (moment, mark)
    return newest


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
