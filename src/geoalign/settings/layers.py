"""Settings in layers: a base, a file, and what the command line sets above them. The later one wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from geoalign.errors import ConfigError
from geoalign.secrets import masked
from geoalign.settings.locations import Locations
from geoalign.settings.problems import refuse_secrets
from geoalign.settings.yaml_text import parse_value, read_yaml
from geoalign.text import quote

C = TypeVar("C")


@dataclass(frozen=True)
class Loaded(Generic[C]):
    """Settings, and where each was written."""

    config: C
    locations: Locations


@dataclass(frozen=True)
class Typed:
    """A setting of the command line: its dotted key, its value, and the option as it was typed."""

    key: str
    value: Any
    words: str


# The `type` that a section has where none is named, by the name of the section. Naming another one starts it anew.
DefaultTypes = Mapping[str, str]


def overridden(
    overrides: Sequence[str], options: Sequence[Typed] = (), *, default_types: DefaultTypes
) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings of the command line, and where each was written.

    Those of options of their own come first, then each `a.b=c` of `--set` in their order.
    """
    values: dict[str, Any] = {}
    locations: dict[str, str] = {}
    for option in options:
        _set_in(values, locations, option, default_types)
    for override in overrides:
        override_setting(values, locations, override, default_types=default_types)
    return values, locations


def override_setting(
    data: dict[str, Any], locations: dict[str, str], override: str, *, default_types: DefaultTypes
) -> None:
    """Sets one `a.b=c` of `--set` in plain settings, in place.

    Raises:
        ConfigError: it has another form, is no YAML, holds a secret, or goes below a setting that is no section.
    """
    key, equals, text = override.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts):
        raise ConfigError(f"--set: expected section.key=value, got {quote(masked(override))}")
    key = ".".join(parts)
    words = f"--set {masked(override)}"
    value = parse_value(text, key, words)
    refuse_secrets(value, path=key)
    _set_in(data, locations, Typed(key, value, words), default_types)


def _set_in(data: dict[str, Any], locations: dict[str, str], given: Typed, default_types: DefaultTypes) -> None:
    """Sets one setting in place; sections on the way to it are made where there are none."""
    *sections, name = given.key.split(".")
    section = data
    for part in sections:
        inner = _section(part, section.get(part), default_types)
        if not isinstance(inner, dict | None):
            raise ConfigError(f"{given.words}: expected {part} to be a section, got {quote(inner)}")
        section[part] = inner or {}
        section = section[part]
    if name == "type" and sections and sections[-1] in default_types:
        kind = section.get("type", default_types[sections[-1]])
        if kind != given.value:
            section.clear()
    section[name] = given.value
    for within in [key for key in locations if key.startswith(f"{given.key}.")]:
        del locations[within]
    locations[given.key] = given.words


def merged_settings(base: Mapping[str, Any], over: Mapping[str, Any], *, default_types: DefaultTypes) -> dict[str, Any]:
    """`base` with the settings of `over` in their place, section by section; neither is changed.

    Naming another `type` starts that section anew: keys of the old kind do not carry over.
    """
    merged = dict(base)
    for name, value in over.items():
        old = _section(name, merged.get(name), default_types)
        if not (isinstance(value, Mapping) and isinstance(old, Mapping)):
            merged[name] = value
            continue
        default = default_types.get(name)
        anew = "type" in value and value["type"] != old.get("type", default)
        merged[name] = dict(value) if anew else merged_settings(old, value, default_types=default_types)
    return merged


def _section(name: str, value: Any, default_types: DefaultTypes) -> Any:
    """A name alone in the place of a section, `curator: grpo`, as the section that it stands for; else the value."""
    return {"type": value} if isinstance(value, str) and name in default_types else value


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested settings by dotted key, in their order; an empty section has none."""
    values: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            values |= flat(value, f"{prefix}{key}.")
        else:
            values[f"{prefix}{key}"] = value
    return values


def read_layers(
    path: Path, above: tuple[Path, ...] = (), *, default_types: DefaultTypes
) -> tuple[dict[str, Any], dict[str, str]]:
    """A settings file as plain data, merged into that of the file beside it that its `base:` names, and so on.

    Args:
        above: the files that build on this one.

    Returns:
        The settings without `base`, and the location of every dotted key that was written.
    """
    data, locations = read_yaml(path)
    if "base" not in data:
        return data, locations
    named = data.pop("base")
    where = locations.pop("base")
    if not isinstance(named, str) or not (path.parent / named).is_file():
        raise ConfigError(f"{where}: base: expected a file beside {path.name}, got {quote(named)}")
    below = path.parent / named
    chain = (*above, path.resolve())
    if below.resolve() in chain:
        raise ConfigError(f"{where}: base: expected a file that does not build on this one, got {quote(named)}")
    base, base_locations = read_layers(below, chain, default_types=default_types)
    return merged_settings(base, data, default_types=default_types), {**base_locations, **locations}
