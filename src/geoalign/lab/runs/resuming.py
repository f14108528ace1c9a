"""Whether a folder may be gone on with: the same settings, and the versions of packages."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import geoalign
from geoalign.errors import ConfigError
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
