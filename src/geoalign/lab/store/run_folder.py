"""The folder of one run: what lies where, written so that a kill at any moment leaves it readable.

Small files are written beside their place and renamed; lines are appended whole; what follows a checkpoint is cut away
when a run goes on from it.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import geoalign
from geoalign.errors import RunFolderError
from geoalign.lab.store.digests import SEAL, Digest, read_sealed, write_sealed
from geoalign.lab.store.files import read_json, write_atomically
from geoalign.lab.store.records import read_yaml
from geoalign.lab.store.same_settings import as_read_now
from geoalign.settings.yaml_text import dump_yaml

SCHEMA_VERSION = 1

_STEP_FILE = re.compile(r"step-([0-9]{6,})(\.parquet|\.safetensors)")

# The packages whose version may change a run's numbers.
_PACKAGES = ("torch", "transformers", "trl", "accelerate", "datasets", "numpy", "scipy", "tokenizers", "safetensors")


class RunFolder:
    """Paths and atomic writes of one run folder (schema version 1)."""

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
        self.checkpoints = self.root / "checkpoints"
        self.report = self.root / "report.html"
        # Of files that never change once they are written, so that each is read once.
        self.digests: dict[Path, Digest] = {}

    @property
    def sft_checkpoints(self) -> Path:
        """Where the warm start's checkpoints lie."""
        return self.checkpoints / "sft"

    @property
    def rl_checkpoints(self) -> Path:
        """Where the RL stage's checkpoints lie."""
        return self.checkpoints / "rl"

    @property
    def warm_started(self) -> Path:
        """The model that RL starts from; complete if it exists."""
        return self.checkpoints / "warm_start"

    @property
    def reward_model(self) -> Path:
        """The learned reward, where the task has one; complete if it exists."""
        return self.checkpoints / "reward_model"

    @property
    def reward_model_checkpoints(self) -> Path:
        """Where the checkpoints of the reward model's training lie."""
        return self.checkpoints / "reward_model_training"

    @property
    def final(self) -> Path:
        """The trained model; complete if it exists."""
        return self.checkpoints / "final"

    def has_content(self) -> bool:
        """True if the folder exists and holds more than a lock file and half-written files."""
        return self.root.is_dir() and any(
            item.name != ".lock" and not item.name.endswith(".tmp") for item in self.root.iterdir()
        )

    def started(self) -> bool:
        """True if a run has written its settings and versions here."""
        return self.versions.is_file() and self.config.is_file()

    def finished(self) -> bool:
        """True if a run here came to its end: its summary is written last of all but the report."""
        return self.started() and self.summary.is_file()

    def initialise(
        self, config: Mapping[str, Any], *, threads: int, processes: int = 1, shared: Path | None = None
    ) -> None:
        """Writes `versions.json`, which has the digest of the settings, then `config.yaml`; a folder with both is a
        started run.

        `shared` is the run folder whose warm start this run starts from.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        start = {} if shared is None else {"shared": str(shared)}
        how = {"threads": threads, "processes": processes}
        settings = dump_yaml(dict(config)).encode("utf-8")
        digest = {"config": Digest.of(settings).plain()}
        write_sealed(self.versions, {"schema_version": SCHEMA_VERSION, **package_versions(), **how, **start, **digest})
        write_atomically(self.config, settings)

    def check_start(self) -> bool:
        """True if `versions.json` and `config.yaml` are as they were written; False if the run was started by a version
        of the package that kept no digests.

        Raises:
            RunFolderError: one of them has changed since.
        """
        versions = self.read_versions()
        if SEAL not in versions and "config" not in versions:
            return False
        read_sealed(self.versions)
        try:
            fault = Digest.of_plain(versions.get("config")).fault(self.config)
        except ValueError as error:
            raise RunFolderError(f"{self.versions}: config: {error}") from error
        if fault is not None:
            raise RunFolderError(
                f"{fault}: put the file back as the run wrote it, or start a new run with another --output"
            )
        return True

    def read_versions(self) -> dict[str, Any]:
        """The content of `versions.json`.

        Raises:
            RunFolderError: it is unreadable, or of a newer schema than this version of the package knows.
        """
        versions = read_json(self.versions)
        schema = versions.get("schema_version")
        if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
            raise RunFolderError(f"{self.versions}: schema_version: expected a whole number from 1, got {schema!r}")
        if schema > SCHEMA_VERSION:
            raise RunFolderError(
                f"{self.versions}: schema_version: expected at most {SCHEMA_VERSION}, got {schema}: "
                f"the run was written by geoalign {versions.get('geoalign')}, this is {geoalign.__version__}"
            )
        return versions

    def read_config(self) -> dict[str, Any]:
        """The resolved settings of the run as plain data, as this version of the package reads them.

        Raises:
            RunFolderError: the file is unreadable or no mapping.
        """
        data, _ = read_yaml(self.config)
        return as_read_now(data)

    def step_file(self, folder: Path, step: int, suffix: str) -> Path:
        """`folder/step-000012.suffix`."""
        return folder / f"step-{step:06d}{suffix}"

    def step_files(self) -> Iterator[tuple[Path, int]]:
        """Every rollout and detail file of the run and its step; what others have put beside them is left out."""
        for folder, suffix in ((self.rollouts, ".parquet"), (self.details, ".safetensors")):
            for path in sorted(folder.glob("step-*")):
                found = _STEP_FILE.fullmatch(path.name)
                if found and found[2] == suffix:
                    yield path, int(found[1])

    def drop_steps(self, keep: Callable[[int], bool]) -> int:
        """Removes rollout and detail files whose step `keep` refuses; returns how many."""
        dropped = [path for path, step in self.step_files() if not keep(step)]
        for path in dropped:
            path.unlink()
        return len(dropped)

    def drop_half_written(self) -> None:
        """Removes what a killed run has left half-written, and nothing else: files and folders of its own names."""
        for path in (*(_beside(path) for path in self._files()), *self._half_written_steps()):
            path.unlink(missing_ok=True)
        for place in (self.warm_started, self.reward_model, self.final):
            written = _beside(place)
            if written.is_dir() and not written.is_symlink():
                shutil.rmtree(written)

    def check_kinds(self) -> None:
        """Raises RunFolderError if a file of the run is something else than a file, or a folder of it no folder."""
        folders = [self.root, self.rollouts, self.details, self.checkpoints, self.root / "figures"]
        folders += [self.warm_started, self.reward_model, self.final]
        for stage in (self.sft_checkpoints, self.reward_model_checkpoints, self.rl_checkpoints):
            folders += [stage, *(path for path in stage.glob("checkpoint-*") if path.name[11:].isdigit())]
        files = [*self._files(), *(path for path, _ in self.step_files())]
        half_written = [*(_beside(path) for path in self._files()), *self._half_written_steps()]
        for path in folders:
            if os.path.lexists(path) and not path.is_dir():
                raise RunFolderError(f"{path}: expected a folder, got {_kind(path)}: put back what the run wrote")
        for path in (*files, *half_written):
            if os.path.lexists(path) and not path.is_file():
                raise RunFolderError(f"{path}: expected a file, got {_kind(path)}: put back what the run wrote")

    def _files(self) -> tuple[Path, ...]:
        logs = (self.metrics, self.evaluation, self.summary, self.references, self.records)
        return (self.versions, self.config, *logs, self.report)

    def _half_written_steps(self) -> Iterator[Path]:
        for folder in (self.rollouts, self.details):
            for path in sorted(folder.glob("step-*.tmp")):
                if _STEP_FILE.fullmatch(path.name.removesuffix(".tmp")):
                    yield path


def _beside(path: Path) -> Path:
    return path.with_name(path.name + ".tmp")


def _kind(path: Path) -> str:
    if path.is_symlink() and not path.exists():
        return "a broken symbolic link"
    return "a folder" if path.is_dir() else "a file" if path.is_file() else "neither a file nor a folder"


def package_versions() -> dict[str, str]:
    """The versions of Python and of the packages that may change a run's numbers; "absent" where not installed."""
    found = {"geoalign": geoalign.__version__, "python": platform.python_version(), "platform": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found
