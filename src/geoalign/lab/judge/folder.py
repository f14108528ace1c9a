"""The folder of a judging: what was judged by whom, the judge's answers, and what came out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, RunFolderError
from geoalign.lab.config.judge import JudgeConfig
from geoalign.lab.judge.prompt import SYSTEM_PROMPT
from geoalign.lab.store.files import read_json, write_json

SCHEMA_VERSION = 1

_FILES = {"a_sha256": "sha256 of file A", "b_sha256": "sha256 of file B"}


class JudgeFolder:
    """Names the files; one folder holds one judging of two files by one judge."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = root / "settings.json"
        self.cache = root / "cache.jsonl"
        self.judgments = root / "judgments.jsonl"
        self.result = root / "judge.json"

    def started(self) -> bool:
        """Whether a judging was begun here."""
        return self.settings.is_file()

    def begin(self, identity: Mapping[str, Any]) -> None:
        """Makes the folder that of a judging, or checks that it is of this one.

        Raises:
            RunFolderError: the folder holds other files, or settings that cannot be read.
            ConfigError: it is of another judging; the message names what differs.
        """
        if not self.started():
            # A kill while the settings were being written leaves their temporary file; answers of an earlier judging
            # may be brought along.
            mine = {".lock", f"{self.settings.name}.tmp", self.cache.name}
            others = sorted(path.name for path in self.root.iterdir() if path.name not in mine)
            if others:
                raise RunFolderError(
                    f"{self.root}: expected an empty folder or one of an earlier judging, got one with {others[0]}"
                )
            write_json(self.settings, identity)
            return
        before = read_json(self.settings)
        for name in dict.fromkeys([*identity, *before]):
            if before.get(name) != identity.get(name):
                what = _FILES.get(name, name)
                raise ConfigError(
                    f"{what}: expected {before.get(name)!r}, as the judging in {self.root}, "
                    f"got {identity.get(name)!r}; take another --output"
                )


def identity_of(a: Path, b: Path, config: JudgeConfig | None, rules: str) -> dict[str, Any]:
    """What a judging depends on, as `settings.json` holds it; names of files are left out, because they may move.

    Args:
        config: the endpoint's settings; None: the local rules named `rules`.
    """
    of_judge: dict[str, Any] = {"judge": rules}
    if config is not None:
        of_judge = {
            "judge": "endpoint",
            "base_url": config.base_url,
            "model": config.model,
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "request": config.request,
            "prompt_sha256": hashlib.sha256(SYSTEM_PROMPT.encode()).hexdigest(),
        }
    return {"schema_version": SCHEMA_VERSION, "a_sha256": _hash(a), "b_sha256": _hash(b), **of_judge}


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
