"""A folder that belongs to one identity: `settings.json` holds what its content depends on, key by key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, RunFolderError
from geoalign.lab.store.files import LOCK, beside
from geoalign.lab.store.json_files import read_json, write_json
from geoalign.lab.store.run_folder import first_difference

SETTINGS = "settings.json"
_WORDS = {"a_sha256": "sha256 of file A", "b_sha256": "sha256 of file B"}


def begin(root: Path, identity: Mapping[str, Any], *, kind: str, resume: bool = True) -> None:
    """Makes a folder that of an evaluation or a judging (`kind`), or checks that it is of this one.

    Args:
        resume: the folder may hold what was begun before.
    """
    settings = root / SETTINGS
    if not settings.is_file():
        # A kill while the settings were being written leaves their temporary file.
        mine = {LOCK, beside(settings).name}
        others = sorted(path.name for path in root.iterdir() if path.name not in mine)
        if others:
            raise RunFolderError(
                f"{root}: expected an empty folder or one of an earlier {kind}, got one with {others[0]}"
            )
        write_json(settings, identity)
        return
    if not resume:
        raise RunFolderError(f"{root}: expected an empty folder, got an {kind}: add --resume to resume it")
    if (difference := first_difference(identity, read_json(settings))) is not None:
        key, got, expected = difference
        raise ConfigError(
            f"{_WORDS.get(key, key)}: expected {expected}, as the {kind} in {root}, got {got}; "
            "take the same files and settings as before, or take another --output"
        )
