"""Whether a folder may be resumed: the same settings, and the versions of packages."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import geoalign
from geoalign.errors import ConfigError, RunFolderError
from geoalign.files.durable import LOCK, temporary_path
from geoalign.files.json_files import read_json, write_json
from geoalign.settings.layers import flat

# Settings that change what is kept, never what is computed.
_FREE = ("output.", "launch.")


_ABSENT = object()


# The packages whose version may change a run's numbers.
_PACKAGES = ("torch", "transformers", "trl", "accelerate", "datasets", "numpy", "scipy", "tokenizers", "safetensors")


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
    difference = first_difference(now, then)
    if difference is not None:
        key, new, old = difference
        raise ConfigError(
            f"{key}: expected {old}, as the run in {folder} was started with, got {new}: "
            f"resume with the same settings, or start a new run with another --output"
        )


def first_difference(now: Mapping[str, Any], then: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The first dotted key whose value differs, and both values as text; None where all that counts is the same."""
    left = flat(now)
    right = flat(then)
    for key in sorted({*left, *right}):
        if key.startswith(_FREE):
            continue
        new = left.get(key, _ABSENT)
        old = right.get(key, _ABSENT)
        if new != old or type(new) is not type(old):
            return key, _shown(new), _shown(old)
    return None


def _shown(value: Any) -> str:
    return "nothing" if value is _ABSENT else repr(value)


SETTINGS = "settings.json"


def begin(root: Path, identity: Mapping[str, Any], *, kind: str) -> None:
    """Writes the `settings.json` of a new folder, or checks that those of an earlier start are the same.

    Args:
        identity: the settings that make it another job where they differ.
        kind: what the folder is of, such as "judging", for errors.
    """
    settings = root / SETTINGS
    if not settings.is_file():
        check_empty(root, kind)
        write_json(settings, identity)
        return
    check_same(identity, read_json(settings), root, kind=kind)


def check_empty(root: Path, kind: str) -> None:
    """Raises RunFolderError for a folder without settings that holds something else."""
    # A kill while the settings were being written leaves their temporary file.
    own = (LOCK, temporary_path(root / SETTINGS).name)
    others = sorted(path.name for path in root.iterdir() if path.name not in own)
    if others:
        raise RunFolderError(f"{root}: expected an empty folder or one of an earlier {kind}, got one with {others[0]}")


# What a differing hash means, in words for the error.
_HASHES = {
    "digest": "the problems, their answers or their order in the files have changed",
    "fingerprint": "weights, tokenizer or chat template have changed",
}


def check_same(now: Mapping[str, Any], then: Mapping[str, Any], root: Path, *, kind: str, key: str = "") -> None:
    """Raises ConfigError that names the first setting which differs from the folder's; `key` stands before its name.

    Hashes come last: where a setting changes what is hashed, the setting is named.
    """
    plain = [{name: value for name, value in given.items() if name not in _HASHES} for given in (now, then)]
    difference = first_difference(*plain) or first_difference(now, then)
    if difference is None:
        return
    name, got, expected = difference
    meaning = f" ({_HASHES[name]})" if name in _HASHES else ""
    raise ConfigError(
        f"{key}{name}: expected {expected}, as the {kind} in {root}, got {got}{meaning}; "
        "take the same files and settings as before, or take another --output"
    )
