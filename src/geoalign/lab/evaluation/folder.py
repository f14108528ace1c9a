"""The folder of an evaluation: what was asked for, the rows in parts, and what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, RunFolderError
from geoalign.lab.config.evaluate import EvaluateConfig
from geoalign.lab.config.layers import flat
from geoalign.lab.evaluation.sets import EvaluationSet
from geoalign.lab.generation.engines import settled
from geoalign.lab.generation.models import Described
from geoalign.lab.store.files import read_json, write_json

SCHEMA_VERSION = 1

_ABSENT = object()
# Settings that stand in `models` and `sets` as what they come to, or change no row.
_ELSEWHERE = ("samples", "pass_at_k", "problems", "max_new_tokens", "device", "chat_template_kwargs", "system_prompt")


class EvaluationFolder:
    """Names the files; one folder holds one evaluation: these models on these sets with these settings."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = root / "settings.json"
        self.rows = root / "rows"
        self.result = root / "results.json"
        self.figures = root / "figures"

    def started(self) -> bool:
        """Whether an evaluation was begun here."""
        return self.settings.is_file()

    def part(self, model: str, name: str, number: int) -> Path:
        """The file of one part of a model's rows on a set."""
        return self.rows / model / name / f"part-{number:05d}.parquet"

    def begin(self, identity: Mapping[str, Any], *, resume: bool) -> None:
        """Makes the folder that of an evaluation, or checks that it is of this one.

        Raises:
            RunFolderError: the folder holds other files, an evaluation although `resume` is false, or broken settings.
            ConfigError: it is of another evaluation; the message names the first key that differs.
        """
        if not self.started():
            mine = {".lock", f"{self.settings.name}.tmp"}
            others = sorted(path.name for path in self.root.iterdir() if path.name not in mine)
            if others:
                raise RunFolderError(f"{self.root}: expected an empty folder, got one with {others[0]}")
            write_json(self.settings, identity)
            return
        if not resume:
            raise RunFolderError(
                f"{self.root}: expected an empty folder, got an evaluation: add --resume to go on with it"
            )
        before, now = flat(read_json(self.settings)), flat(identity)
        for key in dict.fromkeys([*now, *before]):
            then, wanted = before.get(key, _ABSENT), now.get(key, _ABSENT)
            if then != wanted:
                raise ConfigError(
                    f"{key}: expected {_shown(then)}, as the evaluation in {self.root}, got {_shown(wanted)}; "
                    "go on with the same models, sets and settings, or take another --output"
                )


def identity_of(models: Sequence[Described], sets: Sequence[EvaluationSet], config: EvaluateConfig) -> dict[str, Any]:
    """What the rows of an evaluation depend on, as `settings.json` holds it; where files lie is left out."""
    settings = asdict(config)
    device, dtype = settled(config)
    kept = {name: value for name, value in settings.items() if name not in _ELSEWHERE}
    if not config.trust_remote_code:  # absent in evaluations begun before there was this setting
        del kept["trust_remote_code"]
    reward = dict(kept.pop("reward"))
    # How patiently and where answers are scored changes no reward.
    scored_by = {name: reward["model"][name] for name in ("path", "revision", "url", "api", "dtype", "max_length")}
    return {
        "schema_version": SCHEMA_VERSION,
        **kept,
        "batch_size": config.batch,
        "dtype": dtype,
        "device_type": None if device is None else device.partition(":")[0],
        "reward": {"timeout": reward["timeout"], "max_answer_length": reward["max_answer_length"], "model": scored_by},
        "models": {
            one.model.name: {"fingerprint": one.fingerprint, "chat_template_kwargs": dict(one.model.template_options)}
            for one in models
        },
        "sets": {
            one.name: {
                "kind": one.kind,
                "problems": len(one.problems),
                "digest": one.digest(),
                "samples": one.samples,
                "max_new_tokens": one.max_new_tokens,
            }
            for one in sets
        },
    }


def _shown(value: Any) -> str:
    return "nothing" if value is _ABSENT else repr(value)
