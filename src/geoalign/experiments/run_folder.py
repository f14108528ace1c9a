"""The folder of one run: what lies where, written so that a kill at any moment leaves it readable.

Small files are written beside their place and renamed; lines are appended whole; what follows a checkpoint is cut away
when a run goes on from it.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import geoalign
from geoalign.config.yaml_text import dump_yaml
from geoalign.errors import RunFolderError
from geoalign.experiments.same_settings import as_read_now
from geoalign.records import read_yaml
from geoalign.training.files import read_json, write_atomically, write_json

SCHEMA_VERSION = 1

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
        self.references = self.root / "reference_rewards.json"
        self.rollouts = self.root / "rollouts"
        self.details = self.root / "details"
        self.checkpoints = self.root / "checkpoints"
        self.report = self.root / "report.html"

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
        """Writes `versions.json`, then `config.yaml`; a folder with both is a started run.

        `shared` is the run folder whose warm start this run starts from.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        start = {} if shared is None else {"shared": str(shared)}
        how = {"threads": threads, "processes": processes}
        write_json(self.versions, {"schema_version": SCHEMA_VERSION, **package_versions(), **how, **start})
        write_atomically(self.config, dump_yaml(dict(config)))

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

    def drop_steps(self, keep: Callable[[int], bool]) -> int:
        """Removes rollout and detail files whose step `keep` refuses, and half-written ones; returns how many."""
        dropped = 0
        for folder in (self.rollouts, self.details):
            for path in sorted(folder.glob("*")):
                step = path.name.removeprefix("step-").partition(".")[0]
                if path.name.endswith(".tmp") or not step.isdigit() or not keep(int(step)):
                    path.unlink()
                    dropped += 1
        return dropped


def package_versions() -> dict[str, str]:
    """The versions of Python and of the packages that may change a run's numbers; "absent" where not installed."""
    found = {"geoalign": geoalign.__version__, "python": platform.python_version(), "platform": platform.platform()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found
