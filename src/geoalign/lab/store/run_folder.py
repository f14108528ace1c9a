"""The folder of one run: its paths, and files written so that a kill at any moment leaves it readable.

Small files are written under a temporary name and renamed; lines are appended whole; what follows a checkpoint is cut
away when a run is resumed from it.
"""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import geoalign
from geoalign.errors import ConfigError, RunFolderError
from geoalign.lab.config.loading import flat
from geoalign.lab.store.files import HALF_WRITTEN, LOCK, write_atomically
from geoalign.lab.store.json_files import read_json, read_yaml, write_json
from geoalign.settings.yaml_text import dump_yaml

SCHEMA_VERSION = 1
# Beside a reward model: what it gets right on the pairs held out.
ACCURACY_FILE = "pair_accuracy.json"

# Settings that change what is kept, never what is computed.
_FREE = ("output.", "launch.")
_ABSENT = object()

ROLLOUTS, DETAILS = ".parquet", ".safetensors"
_STEP = re.compile(r"step-[0-9]+", re.ASCII)

# The packages whose version may change a run's numbers.
_PACKAGES = ("torch", "transformers", "trl", "accelerate", "datasets", "numpy", "scipy", "tokenizers", "safetensors")


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
        self.checkpoints = self.root / "checkpoints"
        self.sft_checkpoints = self.checkpoints / "sft"
        self.reward_model_checkpoints = self.checkpoints / "reward_model_training"
        self.gold_model_checkpoints = self.checkpoints / "gold_model_training"
        self.rl_checkpoints = self.checkpoints / "rl"
        # Models: each is complete if it exists.
        self.warm_started = self.checkpoints / "warm_start"
        self.reward_model = self.checkpoints / "reward_model"
        self.gold_model = self.checkpoints / "gold_model"
        self.final = self.checkpoints / "final"
        self.report = self.root / "report.html"
        self.figures = self.root / "figures"

    def has_content(self) -> bool:
        """True if the folder exists and holds more than a lock file and half-written files."""
        return self.root.is_dir() and any(
            item.name != LOCK and not item.name.endswith(HALF_WRITTEN) for item in self.root.iterdir()
        )

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
        versions = read_json(self.versions)
        if (schema := versions["schema_version"]) != SCHEMA_VERSION:
            raise RunFolderError(f"{self.versions}: schema_version: expected {SCHEMA_VERSION}, got {schema!r}")
        return versions

    def read_config(self) -> dict[str, Any]:
        data, _ = read_yaml(self.config)
        return data

    def rollouts_of(self, step: int) -> Path:
        return self.rollouts / f"step-{step:06d}.parquet"

    def details_of(self, step: int) -> Path:
        return self.details / f"step-{step:06d}.safetensors"

    def drop_steps(self, first: int) -> None:
        """Removes rollout and detail files from a step on; what others have put beside them stays."""
        for folder, suffix in ((self.rollouts, ROLLOUTS), (self.details, DETAILS)):
            for step, path in step_files(folder, suffix):
                if step >= first:
                    path.unlink()

    def drop_half_written(self) -> None:
        """Removes what a killed run has left half-written, under names of its own."""
        for own in ("*.json", "*.jsonl", "*.yaml", "*.html", "rollouts/step-*", "details/step-*", "checkpoints/*"):
            for path in sorted(self.root.glob(own + HALF_WRITTEN)):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()


def step_files(folder: Path, suffix: str) -> list[tuple[int, Path]]:
    """Files step-<number><suffix> by rising step; a writer's temporary files have other names."""
    paths = [path for path in folder.glob(f"step-*{suffix}") if _STEP.fullmatch(path.name.removesuffix(suffix))]
    return sorted((int(path.stem.removeprefix("step-")), path) for path in paths)


def package_versions() -> dict[str, str]:
    """The versions of Python and of the packages that may change a run's numbers; "absent" where not installed."""
    versions = {"geoalign": geoalign.__version__, "python": platform.python_version(), "platform": platform.platform()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "absent"
    return versions


def check_same_settings(now: Mapping[str, Any], then: Mapping[str, Any], folder: Path) -> None:
    """Raises ConfigError naming the first dotted key whose value differs from that of the run's start."""
    if (difference := first_difference(now, then)) is not None:
        key, new, old = difference
        raise ConfigError(
            f"{key}: expected {old}, as the run in {folder} was started with, got {new}: "
            f"resume with the same settings, or start a new run with another --output"
        )


def first_difference(now: Mapping[str, Any], then: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The first dotted key whose value differs, and both values as text; None where all that counts is the same."""
    left, right = flat(now), flat(then)
    for key in sorted({*left, *right}):
        if key.startswith(_FREE):
            continue
        new, old = left.get(key, _ABSENT), right.get(key, _ABSENT)
        if new != old or type(new) is not type(old):
            shown = ["nothing" if value is _ABSENT else repr(value) for value in (new, old)]
            return key, shown[0], shown[1]
    return None
