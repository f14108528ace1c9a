"""Plain settings merged, as dotted keys, and files that build on another one (`base: other.yaml`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.config.run import DEFAULT_TYPES
from geoalign.settings.locations import Locations
from geoalign.settings.yaml_text import read_yaml
from geoalign.shown import shown


def merged_settings(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the settings of `over` in their place, section by section; neither is changed.

    Naming another `type` starts that section anew: keys of the old kind do not carry over.
    """
    merged = dict(base)
    for name, value in over.items():
        old = merged.get(name)
        if not (isinstance(value, Mapping) and isinstance(old, Mapping)):
            merged[name] = value
            continue
        default = DEFAULT_TYPES.get(name)
        anew = "type" in value and value["type"] != old.get("type", default)
        merged[name] = dict(value) if anew else merged_settings(old, value)
    return merged


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested settings by dotted key, in their order; an empty section has none."""
    values: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            values |= flat(value, f"{prefix}{key}.")
        else:
            values[f"{prefix}{key}"] = value
    return values


def is_file(path: Path) -> bool:
    """True for a file that is there; False also for a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_layers(path: Path, above: tuple[Path, ...] = ()) -> tuple[dict[str, Any], dict[str, str]]:
    """A settings file as plain data, merged into that of the file beside it that its `base:` names, and so on.

    Returns:
        The settings without `base`, and the location of every dotted key that was written.

    Raises:
        ConfigError: a file cannot be read, `base` names no file, or files build on one another in a circle.
    """
    data, locations = read_yaml(path)
    if "base" not in data:
        return data, locations
    named = data.pop("base")
    where = Locations(locations).prefix("base")
    if not isinstance(named, str) or not is_file(path.parent / named):
        raise ConfigError(f"{where}base: expected a file beside {path.name}, got {shown(named)}")
    below = path.parent / named
    chain = (*above, path.resolve())
    if below.resolve() in chain:
        raise ConfigError(f"{where}base: expected a file that does not build on this one, got {shown(named)}")
    base, base_locations = read_layers(below, chain)
    locations.pop("base")
    return merged_settings(base, data), {**base_locations, **locations}
