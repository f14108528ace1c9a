"""Settings in layers: a base, a file, and what the command line sets above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from geoalign.errors import ConfigError
from geoalign.settings.locations import Locations
from geoalign.settings.secrets import holds_secret, masked, refuse_secrets, secret_setting
from geoalign.settings.yaml_text import parse_value, read_yaml
from geoalign.text import escape, quote

C = TypeVar("C")


@dataclass(frozen=True)
class Loaded(Generic[C]):
    """Settings, and where each was written."""

    config: C
    locations: Locations


@dataclass(frozen=True)
class Typed:
    """A setting that an option of its own gave: its dotted key, its value, and the option as it was typed."""

    key: str
    value: Any
    words: str


# The `type` that a section has where none is named, by the name of the section. Naming another one starts it anew.
DefaultTypes = Mapping[str, str]


def overridden(
    overrides: Sequence[str], options: Sequence[Typed] = (), *, default_types: DefaultTypes
) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings of the command line, and where each was written: those of options of their own, then each `a.b=c` of
    `--set` in their order. What two of them say differently is refused, in whatever order they stand.
    """
    values: dict[str, Any] = {}
    locations: dict[str, str] = {}
    check_options_agree(options, overrides)
    for option in options:
        section = values
        *sections, name = option.key.split(".")
        for part in sections:
            section = section.setdefault(part, {})
        section[name] = option.value
        locations[option.key] = option.words
    for override in overrides:
        override_setting(values, locations, override, default_types=default_types)
    return values, locations


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def check_options_agree(options: Sequence[Typed], overrides: Sequence[str]) -> None:
    """Raises ConfigError where two options, or an option and a `--set` of its setting, say different things."""
    by_key: dict[str, Typed] = {}
    for option in options:
        check_agree(by_key.get(option.key), option)
        by_key[option.key] = option
    for override in overrides:
        key, _, text = override.partition("=")
        dotted = ".".join(part.strip() for part in key.split("."))
        if dotted in by_key:
            words = f"--set {escape(masked(override))}"
            check_agree(by_key[dotted], Typed(dotted, parse_value(text, dotted, words), words))


def check_agree(one: Typed | None, other: Typed) -> None:
    """Raises ConfigError for two options that give a setting different values; both are named as they were typed."""
    if one is not None and one.value != other.value:
        raise ConfigError(f"{one.words} and {other.words} contradict each other: {other.key} has one value, keep one")


def override_setting(
    data: dict[str, Any],
    locations: dict[str, str],
    override: str,
    *,
    default_types: DefaultTypes,
    run: tuple[str, ...] = (),
) -> None:
    """Sets one `a.b=c` of the command line in plain settings, in place.

    Args:
        run: the keys under which the sections of a run stand; none: at the top.
    """
    key, equals, text = override.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(part and part.isprintable() for part in parts):
        raise ConfigError(f"--set: expected section.key=value, got {quote(masked(override))}")
    dotted = ".".join(parts)
    # Looked at before it is parsed: what cannot be parsed is shown.
    if text.strip().lower() not in ("", "null", "~", "true", "false") and holds_secret(dotted, _number_or_text(text)):
        raise ConfigError(f"--set {secret_setting(dotted)}")
    override = masked(override)
    location = f"--set {escape(override)}"
    value = parse_value(text, dotted, location)
    refuse_secrets(value, path=dotted)
    section = data
    for part in parts[:-1]:
        inner = section.get(part)
        if inner is None:
            inner = section[part] = {}
        if not isinstance(inner, dict):
            raise ConfigError(f"{location}: expected {part} to be a section, got {quote(inner)}")
        section = inner
    for key, earlier in locations.items():
        if key.startswith(f"{dotted}.") and earlier.startswith("--set ") and parts[-1] != "type":
            raise ConfigError(f"{location} would undo {earlier}: a setting within {dotted} and all of it, keep one")
    name = parts[len(run)] if len(parts) > len(run) else ""
    picks_kind = tuple(parts) == (*run, name, "type") and name in default_types
    if picks_kind and section.get("type", default_types[name]) != value:
        section.clear()
    section[parts[-1]] = value
    locations[".".join(parts)] = location


def merged_settings(base: Mapping[str, Any], over: Mapping[str, Any], *, default_types: DefaultTypes) -> dict[str, Any]:
    """`base` with the settings of `over` in their place, section by section; neither is changed.

    Naming another `type` starts that section anew: keys of the old kind do not carry over.
    """
    merged = dict(base)
    for name, value in over.items():
        old = merged.get(name)
        if not (isinstance(value, Mapping) and isinstance(old, Mapping)):
            merged[name] = value
            continue
        default = default_types.get(name)
        anew = "type" in value and value["type"] != old.get("type", default)
        merged[name] = dict(value) if anew else merged_settings(old, value, default_types=default_types)
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


def read_layers(
    path: Path, above: tuple[Path, ...] = (), *, default_types: DefaultTypes
) -> tuple[dict[str, Any], dict[str, str]]:
    """A settings file as plain data, merged into that of the file beside it that its `base:` names, and so on.

    Returns:
        The settings without `base`, and the location of every dotted key that was written.
    """
    data, locations = read_yaml(path)
    if "base" not in data:
        return data, locations
    named = data.pop("base")
    where = Locations(locations).prefix("base")
    if not isinstance(named, str) or not (path.parent / named).is_file():
        raise ConfigError(f"{where}base: expected a file beside {path.name}, got {quote(named)}")
    below = path.parent / named
    chain = (*above, path.resolve())
    if below.resolve() in chain:
        raise ConfigError(f"{where}base: expected a file that does not build on this one, got {quote(named)}")
    base, base_locations = read_layers(below, chain, default_types=default_types)
    locations.pop("base")
    return merged_settings(base, data, default_types=default_types), {**base_locations, **locations}
