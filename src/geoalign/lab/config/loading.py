"""From a YAML file and `--set` overrides to the typed settings of a run, and back to plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from geoalign.errors import ConfigError
from geoalign.lab.config.layers import read_layers
from geoalign.lab.config.run import DEFAULT_TYPES, RunConfig
from geoalign.settings.loading import load_settings
from geoalign.settings.locations import Locations
from geoalign.settings.masking import is_secret_name, masked
from geoalign.settings.secrets import refuse_secrets, secret_setting
from geoalign.settings.yaml_text import parse_value
from geoalign.shown import shown, shown_key

C = TypeVar("C")


@dataclass(frozen=True)
class Loaded(Generic[C]):
    """Settings, and where each was written."""

    config: C
    locations: Locations


def load_run_config(path: Path | None = None, overrides: Sequence[str] = ()) -> Loaded[RunConfig]:
    """The settings of a run: defaults, the file that its `base:` names, the file, each `a.b=c` of `overrides` in order.

    Naming another `type` in an override starts that section anew: keys of the old kind do not carry over.

    Raises:
        ConfigError: an unreadable file, an unknown key (with the nearest known one), or a value out of range; the
            message has the dotted key, the file and the line.
    """
    data, locations = read_layers(path) if path is not None else ({}, {})
    for override in overrides:
        override_setting(data, locations, override)
    return Loaded(parse_run_config(data, Locations(locations)), Locations(locations))


def parse_run_config(data: Mapping[str, Any], locations: Locations | None = None) -> RunConfig:
    """The settings of a run from plain data, as `plain_settings` gives them.

    Raises:
        ConfigError: as `load_run_config`.
    """
    config: RunConfig = load_settings(RunConfig, data, locations)
    return config


def overridden(overrides: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings of each `a.b=c` of the command line, in their order, and where each was written."""
    values: dict[str, Any] = {}
    locations: dict[str, str] = {}
    for override in overrides:
        override_setting(values, locations, override)
    return values, locations


def override_setting(
    data: dict[str, Any], locations: dict[str, str], override: str, *, run: tuple[str, ...] = ()
) -> None:
    """Sets one `a.b=c` of the command line in plain settings, in place.

    Args:
        run: the keys under which the sections of a run stand; none: at the top.

    Raises:
        ConfigError: no key, or a key inside something that is no section.
    """
    key, equals, text = override.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(part and part.isprintable() for part in parts):
        raise ConfigError(f"--set: expected section.key=value, got {shown(masked(override))}")
    dotted = ".".join(parts)
    if is_secret_name(dotted) and text.strip().lower() not in ("", "null", "~", "true", "false"):
        raise ConfigError(f"--set {secret_setting(dotted)}")
    override = masked(override)
    location = f"--set {shown_key(override)}"
    value = parse_value(text, dotted, location)
    refuse_secrets(value, path=dotted)
    section = data
    for part in parts[:-1]:
        inner = section.get(part)
        if inner is None:
            inner = section[part] = {}
        if not isinstance(inner, dict):
            raise ConfigError(f"{location}: expected {part} to be a section, got {shown(inner)}")
        section = inner
    name = parts[len(run)] if len(parts) > len(run) else ""
    picks_kind = tuple(parts) == (*run, name, "type") and name in DEFAULT_TYPES
    if picks_kind and section.get("type", DEFAULT_TYPES[name]) != value:
        section.clear()
    section[parts[-1]] = value
    locations[".".join(parts)] = location
