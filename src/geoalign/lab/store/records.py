"""What a run's own files held at a moment: logs, rollouts, details, finished models. A resumed run goes back to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.store.seals import MARK, NOTHING, Digest, files_fault, read_mark, read_sealed, write_sealed

# In the order in which a run passes through them.
STAGES = ("sft", "reward_model", "gold_model", "rl", "done")


@dataclass(frozen=True)
class Records:
    """What lay in a run folder after `step` updates of a stage.

    Attributes:
        start: digest of `versions.json`, which has that of `config.yaml`.
        metrics, evaluation: digest of the two logs, which only grow.
        rollouts, details: digest of each file there, by name.
        made: digest of the mark of each complete model, by the name of its folder.
        summary: digest of `summary.json`; None before the run's end.
    """

    stage: str
    step: int
    start: Digest
    metrics: Digest = NOTHING
    evaluation: Digest = NOTHING
    rollouts: Mapping[str, Digest] = field(default_factory=dict)
    details: Mapping[str, Digest] = field(default_factory=dict)
    made: Mapping[str, Digest] = field(default_factory=dict)
    summary: Digest | None = None

    @property
    def rank(self) -> tuple[int, int]:
        """Orders the records of one run in time."""
        return STAGES.index(self.stage), self.step

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        files = {name: getattr(self, name).plain() for name in _FILES}
        folders = {name: {key: digest.plain() for key, digest in getattr(self, name).items()} for name in _FOLDERS}
        summary = {} if self.summary is None else {"summary": self.summary.plain()}
        return {"stage": self.stage, "step": self.step, **files, **folders, **summary}

    @classmethod
    def of_plain(cls, value: Mapping[str, Any]) -> Records:
        """The records that `plain` made into JSON.

        Raises:
            ValueError: they are none.
        """
        try:
            stage, step = value["stage"], value["step"]
            start, metrics, evaluation = (Digest.of_plain(value[name]) for name in _FILES)
            rollouts, details, made = (
                {str(name): Digest.of_plain(of) for name, of in value[key].items()} for key in _FOLDERS
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"expected records of a run, got {type(error).__name__}: {error}") from error
        if stage not in STAGES or not isinstance(step, int):
            raise ValueError(f"expected a stage ({', '.join(STAGES)}) and a step, got {stage!r} and {step!r}")
        summary = Digest.of_plain(value["summary"]) if "summary" in value else None
        return cls(stage, step, start, metrics, evaluation, rollouts, details, made, summary)


_FILES = ("start", "metrics", "evaluation")
_FOLDERS = ("rollouts", "details", "made")


def next_stage(folder: RunFolder, learned: Sequence[str]) -> str:
    """The stage that follows once the warm start is there: the first of the stages `learned`, which make a reward model
    and a gold model in folders of their names, whose model is not there yet; after them RL."""
    return next((name for name in learned if not (folder.checkpoints / name).is_dir()), "rl")


def made_models(folder: RunFolder) -> tuple[Path, ...]:
    """The models that a run makes once; each is complete if it exists."""
    return folder.warm_started, folder.reward_model, folder.gold_model, folder.final


def records_now(folder: RunFolder, stage: str, step: int) -> Records:
    """What the run's own files hold now. A rollout file, which never changes, is read once in a process."""
    steps: dict[str, dict[str, Digest]] = {"rollouts": {}, "details": {}}
    for path, _ in folder.step_files():
        if path not in folder.digests:
            folder.digests[path] = Digest.of_file(path)
        steps[path.parent.name][path.name] = folder.digests[path]
    return Records(
        stage,
        step,
        start=Digest.of_file(folder.versions),
        metrics=Digest.of_file(folder.metrics),
        evaluation=Digest.of_file(folder.evaluation),
        rollouts=steps["rollouts"],
        details=steps["details"],
        made={model.name: Digest.of_file(model / MARK) for model in made_models(folder) if (model / MARK).is_file()},
    )


def records_of(folder: RunFolder, stage: str) -> Callable[[int], dict[str, Any]]:
    """What `CompleteCheckpoints` notes in the marks of a stage's checkpoints."""
    return lambda step: records_now(folder, stage, step).plain()


def note_records(folder: RunFolder, stage: str, step: int, *, summary: bytes | None = None) -> None:
    """Writes `records.json`: what has come since the last checkpoint, such as an evaluation, counts from now on."""
    records = records_now(folder, stage, step)
    if summary is not None:
        records = replace(records, summary=Digest.of(summary))
    write_sealed(folder.records, records.plain())


def noted_records(folder: RunFolder) -> Records | None:
    """The content of `records.json`; None where there is none.

    Raises:
        RunFolderError: it is not as it was written.
    """
    if not folder.records.is_file():
        return None
    try:
        return Records.of_plain(read_sealed(folder.records))
    except (RunFolderError, ValueError) as error:
        raise RunFolderError(
            f"{error}: remove {folder.records}; what was done since the last checkpoint is then done again"
        ) from error


class Check:
    """Compares the files of a run folder with records; a complete model is read once."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._made: dict[str, str | None] = {}

    def fault(self, records: Records, *, whole: bool = False) -> str | None:
        """The first thing that is not as the records say, "path: expected ..., got ..."; None where all is.

        Args:
            whole: the logs must not have grown since.
        """
        folder = self.folder
        for path, digest in ((folder.versions, records.start), *self._marks(records)):
            if (fault := digest.fault(path)) is not None:
                return fault
        for name in records.made:
            if (fault := self.made_fault(folder.checkpoints / name)) is not None:
                return fault
        for path, digest in ((folder.metrics, records.metrics), (folder.evaluation, records.evaluation)):
            if (digest.size or path.exists()) and (fault := digest.fault(path, begins=not whole)) is not None:
                return fault
        for parent, digests in ((folder.rollouts, records.rollouts), (folder.details, records.details)):
            for name, digest in digests.items():
                if (fault := digest.fault(parent / name)) is not None:
                    return fault
        return None

    def made_fault(self, model: Path) -> str | None:
        """What is wrong with the files of a complete model; None where all are as its mark says."""
        if model.name not in self._made:
            try:
                self._made[model.name] = files_fault(model, read_mark(model))
            except RunFolderError as error:
                self._made[model.name] = str(error)
        return self._made[model.name]

    def _marks(self, records: Records) -> list[tuple[Path, Digest]]:
        return [(self.folder.checkpoints / name / MARK, digest) for name, digest in records.made.items()]
