"""Settings laid over others, and files that build on another one (`base: other.yaml`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.settings.locations import Places, read_yaml
from geoalign.settings.shown import shown

# Files that build on one another by `base:`.
MOST_LAYERS = 10
# The kind that a section has where its `type` is left out.
DEFAULT_TYPES = {"model": "tiny", "task": "arithmetic", "curator": "geoalign"}


def lay_over(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
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
        merged[name] = dict(value) if anew else lay_over(old, value)
    return merged


def is_file(path: Path) -> bool:
    """True for a file that is there; False also for a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_layers(path: Path, above: tuple[Path, ...] = ()) -> tuple[dict[str, Any], dict[str, str]]:
    """A settings file as plain data, laid over the file that its `base:` names (beside it), and so on.

    Returns:
        The settings without `base`, and the place of every dotted key that was written.

    Raises:
        ConfigError: a file cannot be read, `base` names no file, or files build on one another in a circle.
    """
    data, places = read_yaml(path)
    if "base" not in data:
        return data, places
    named = data.pop("base")
    where = Places(places).prefix("base")
    if not isinstance(named, str) or not is_file(path.parent / named):
        raise ConfigError(f"{where}base: expected a file beside {path.name}, got {shown(named)}")
    below = path.parent / named
    chain = (*above, path.resolve())
    if below.resolve() in chain:
        raise ConfigError(f"{where}base: expected a file that does not build on this one, got {shown(named)}")
    if len(chain) > MOST_LAYERS:
        raise ConfigError(f"{where}base: expected at most {MOST_LAYERS} files one on another, got {shown(named)}")
    base, base_places = read_layers(below, chain)
    places.pop("base")
    return lay_over(base, data), {**base_places, **places}
