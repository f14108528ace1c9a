"""Whether a run is gone on with as it was started, or a result was made as it is wanted: the settings, key by key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.config.layers import flat
from geoalign.lab.config.loading import parse_run_config
from geoalign.settings.loading import plain_settings

# Settings that change what is kept, never what is computed.
_FREE = ("output.", "launch.")

_ABSENT = object()


def check_same_settings(now: Mapping[str, Any], then: Mapping[str, Any], folder: Path) -> None:
    """Raises ConfigError naming the first dotted key whose value differs from that of the run's start."""
    found = first_difference(now, then)
    if found is not None:
        key, new, old = found
        raise ConfigError(
            f"{key}: expected {old}, as the run in {folder} was started with, got {new}: "
            f"resume with the same settings, or start a new run with another --output"
        )


def as_read_now(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a whole run as this version of the package reads them: what it has added stands at its default,
    which means what was before. Settings that it no longer reads come back as they are."""
    try:
        return plain_settings(parse_run_config(settings))
    except ConfigError:
        return dict(settings)


def first_difference(now: Mapping[str, Any], then: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """The first dotted key whose value differs, and both values as text; None where all that counts is the same."""
    left, right = flat(now), flat(then)
    for key in sorted({*left, *right}):
        if key.startswith(_FREE):
            continue
        new, old = left.get(key, _ABSENT), right.get(key, _ABSENT)
        if new != old or type(new) is not type(old):
            return key, _shown(new), _shown(old)
    return None


def _shown(value: Any) -> str:
    return "nothing" if value is _ABSENT else repr(value)
