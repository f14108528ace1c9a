"""From a YAML file and `--set` overrides to the typed settings of a run, and back to plain data."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import ValidationError
from pydantic_core import ArgsKwargs

from geoalign.errors import ConfigError
from geoalign.lab.config.layers import DEFAULT_TYPES, read_layers
from geoalign.lab.config.run import MODEL_CONFIGS, RunConfig
from geoalign.lab.config.tasks import TASK_CONFIGS
from geoalign.settings.chain import ChainConfig
from geoalign.settings.curator_types import CURATOR_CONFIGS
from geoalign.settings.locations import Places, parse_value
from geoalign.settings.masking import is_secret_name, masked
from geoalign.settings.secrets import refuse_secrets, secret_setting
from geoalign.settings.shown import shown, shown_key
from geoalign.settings.yaml_text import DEEPEST, LONGEST_KEY

ENTRY_POINT_GROUP = "geoalign.curators"

# Sections whose keys are options of TRL; `geoalign.lab.train.options` checks them, because they need torch to be known.
_PASSED_ON = ("sft", "reward_model", "grpo")


@dataclass(frozen=True)
class LoadedConfig:
    """The settings of a run, and where each was written."""

    config: RunConfig
    places: Places


def load_run_config(path: Path | None = None, overrides: Sequence[str] = ()) -> LoadedConfig:
    """The settings of a run: defaults, the file that its `base:` names, the file, each `a.b=c` of `overrides` in order.

    Naming another `type` in an override starts that section anew: keys of the old kind do not carry over.

    Raises:
        ConfigError: an unreadable file, an unknown key (with the nearest known one), or a value out of range; the
            message has the dotted key, the file and the line.
    """
    data, places = read_layers(path) if path is not None else ({}, {})
    for override in overrides:
        override_setting(data, places, override)
    return LoadedConfig(parse_run_config(data, Places(places)), Places(places))


def parse_run_config(data: Mapping[str, Any], places: Places | None = None) -> RunConfig:
    """The settings of a run from plain data, as `plain_run_config` gives them.

    Raises:
        ConfigError: as `load_run_config`.
    """
    places = places or Places()
    refuse_secrets(data, places)
    check_keys(data, [item.name for item in fields(RunConfig)], "", places)
    values: dict[str, Any] = {}
    for name, value in data.items():
        if name in DEFAULT_TYPES:
            values[name] = _typed_section(name, value, places)
        elif name in _PASSED_ON:
            values[name] = _passed_on(name, value, places)
        else:
            kind = _settings_class(get_type_hints(RunConfig, include_extras=True)[name])
            values[name] = _section(kind, name, value, places) if kind else value
    return _construct(RunConfig, "", values, places)


def parse_settings(kind: Any, data: Mapping[str, Any], places: Places | None = None) -> Any:
    """The settings of one class from plain data; those that are themselves settings may stand there as sections.

    Raises:
        ConfigError: an unknown key (with the nearest known one), or a value out of range; the message has the key.
    """
    refuse_secrets(data, places)
    return _section(kind, "", data, places or Places())


def plain_run_config(config: RunConfig) -> dict[str, Any]:
    """The settings as nested dicts of plain values, `type` of each section included: what `config.yaml` holds."""
    plain: dict[str, Any] = {}
    for item in fields(RunConfig):
        value = getattr(config, item.name)
        if item.name == "curator":
            plain[item.name] = plain_curator(value)
        elif is_dataclass(value) and not isinstance(value, type):
            section = asdict(value)
            plain[item.name] = {"type": section.pop("type"), **section} if "type" in section else section
        else:
            plain[item.name] = value
    return _lists_for_tuples(plain)


def plain_curator(settings: Any) -> dict[str, Any]:
    """The settings of a curator as a `curator:` section: its `type`, and each setting; members of a chain likewise."""
    values = asdict(settings)
    if isinstance(settings, ChainConfig):
        values["members"] = [plain_curator(member) for member in settings.members]
    return {"type": curator_name(settings), **values}


def curator_name(settings: Any) -> str:
    """The name under which the curator of these settings is known.

    Raises:
        ConfigError: no built-in or installed curator has settings of this type.
    """
    for name, kind in CURATOR_CONFIGS.items():
        if type(settings) is kind:
            return name
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if type(settings) is point.load().config_class:
            return point.name
    raise ConfigError(f"curator: no curator takes settings of type {type(settings).__name__}")


def check_keys(data: Mapping[str, Any], known: Iterable[str], section: str, places: Places) -> None:
    """Raises ConfigError for the first key of `data` that is not in `known`, naming the nearest one that is."""
    known = list(known)
    for key in data:
        if key not in known:
            raise unknown_key(str(key), known, section, places)


def unknown_key(last: str, known: Sequence[str], section: str, places: Places) -> ConfigError:
    """The error for a key that is not among the `known` names of its section."""
    key = f"{section}.{last}" if section else last
    candidates = {name: f"{section}.{name}" if section else name for name in known}
    near = difflib.get_close_matches(last[:LONGEST_KEY], candidates, n=1, cutoff=0.6)
    if "." in last:
        expected = "expected a section within a section, not a key with dots"
    elif near:
        expected = f"expected {candidates[near[0]]}, the nearest known key"
    elif elsewhere := _elsewhere(last):
        other = elsewhere == key
        expected = (
            f"known only to another {section}.type" if other else f"expected {elsewhere}, a known key of that name"
        )
    elif len(known) > 20:
        expected = f"expected one of the {len(known)} options known there"
    else:
        expected = f"expected one of {', '.join(sorted(known)) or '(none: it takes no settings)'}"
    return ConfigError(f"{places.prefix(key)}{shown_key(key)}: unknown key: {expected}; got {shown(last)}")


def override_setting(data: dict[str, Any], places: dict[str, str], override: str, *, run: tuple[str, ...] = ()) -> None:
    """Lays one `a.b=c` of the command line over plain settings, in place.

    Args:
        run: the keys under which the sections of a run stand; none: at the top.

    Raises:
        ConfigError: no key, or a key inside something that is no section.
    """
    key, equals, text = override.partition("=")
    parts = [part.strip() for part in key.split(".", DEEPEST)]
    if not equals or not all(part and part.isprintable() for part in parts):
        raise ConfigError(f"--set: expected section.key=value, got {shown(masked(override))}")
    if len(parts) > DEEPEST or len(key) > DEEPEST * LONGEST_KEY:
        raise ConfigError(
            f"--set: expected at most {DEEPEST} keys with dots between them, got {shown(masked(override))}"
        )
    dotted = ".".join(parts)
    if is_secret_name(dotted) and text.strip().lower() not in ("", "null", "~", "true", "false"):
        raise ConfigError(f"--set {secret_setting(dotted)}")
    override = masked(override)
    place = f"--set {shown_key(override)}"
    value = parse_value(text, dotted, place)
    refuse_secrets(value, path=dotted)
    section = data
    for part in parts[:-1]:
        inner = section.get(part)
        if inner is None:
            inner = section[part] = {}
        if not isinstance(inner, dict):
            raise ConfigError(f"{place}: expected {part} to be a section, got {shown(inner)}")
        section = inner
    name = parts[len(run)] if len(parts) > len(run) else ""
    picks_kind = tuple(parts) == (*run, name, "type") and name in DEFAULT_TYPES
    if picks_kind and section.get("type", DEFAULT_TYPES[name]) != value:
        section.clear()
    section[parts[-1]] = value
    places[".".join(parts)] = place


def _typed_section(name: str, value: Any, places: Places, path: str | None = None) -> Any:
    path = path or name
    values = dict(_mapping(path, value, places))
    kind_name = values.pop("type", DEFAULT_TYPES[name])
    kind = _kind(name, kind_name, path, places)
    if kind is ChainConfig and "members" in values:
        values["members"] = _members(values["members"], path, places)
    extra = {"type": kind_name} if "type" in {item.name for item in fields(kind)} else {}
    return _section(kind, path, values, places, extra)


def _members(value: Any, path: str, places: Places) -> tuple[Any, ...]:
    """The settings of a chain's members: a list of curator sections, each with its `type`."""
    if not isinstance(value, (list, tuple)):
        raise ConfigError(
            f"{places.prefix(f'{path}.members')}{path}.members: expected a list of curators, got {shown(value)}"
        )
    members = []
    for number, member in enumerate(value):
        inner = f"{path}.members.{number}"
        if not isinstance(member, Mapping) or "type" not in member:
            raise ConfigError(f"{places.prefix(inner)}{inner}: expected a section with a type, got {shown(member)}")
        members.append(_typed_section("curator", member, places, inner))
    return tuple(members)


def _kind(section: str, name: Any, path: str, places: Places) -> Any:
    if section == "curator":
        return _curator_settings(name, path, places)
    kinds = {"model": MODEL_CONFIGS, "task": TASK_CONFIGS}[section]
    if not isinstance(name, str) or name not in kinds:
        raise _unknown_kind(path, name, kinds, places)
    return kinds[name]


def _curator_settings(name: Any, path: str, places: Places) -> Any:
    if isinstance(name, str) and name in CURATOR_CONFIGS:
        return CURATOR_CONFIGS[name]
    installed = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if not isinstance(name, str) or name not in installed:
        raise _unknown_kind(path, name, {**installed, **CURATOR_CONFIGS}, places)
    return installed[name].load().config_class


def _unknown_kind(path: str, name: Any, kinds: Mapping[str, Any], places: Places) -> ConfigError:
    key = f"{path}.type"
    near = difflib.get_close_matches(name[:LONGEST_KEY], kinds, n=1, cutoff=0.6) if isinstance(name, str) else []
    hint = f" (nearest: {near[0]})" if near else ""
    return ConfigError(
        f"{places.prefix(key)}{key}: expected one of {', '.join(sorted(kinds))}{hint}; got {shown(name)}"
    )


def _passed_on(name: str, value: Any, places: Places) -> dict[str, Any] | None:
    if value is None and name == "sft":
        return None
    return dict(_mapping(name, value, places))


def _mapping(name: str, value: Any, places: Places) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{places.prefix(name)}{name}: expected a section of settings, got {shown(value)}")
    return value


def _section(kind: Any, path: str, value: Any, places: Places, extra: Mapping[str, Any] | None = None) -> Any:
    values = dict(_mapping(path, value, places))
    check_keys(values, [item.name for item in fields(kind) if item.name != "type"], path, places)
    hints = get_type_hints(kind, include_extras=True)
    for name, item in values.items():
        if not isinstance(item, Mapping):
            continue
        inner, within = f"{path}.{name}" if path else name, _settings_class(hints[name])
        if within is not None:
            values[name] = _section(within, inner, item, places)
        elif (by_name := _settings_by_name(hints[name])) is not None:
            values[name] = {
                key: _section(by_name, f"{inner}.{key}", value, places) if isinstance(value, Mapping) else value
                for key, value in item.items()
            }
    return _construct(kind, path, {**values, **(extra or {})}, places)


def _construct(kind: Any, path: str, values: Mapping[str, Any], places: Places) -> Any:
    try:
        return kind(**values)
    except ConfigError as error:
        if not isinstance(error.__cause__, ValidationError):
            raise
        problem = error.__cause__.errors()[0]
    inner = [str(part) for part in problem["loc"] if isinstance(part, str) and part.isidentifier()]
    # A union's branches stand in `loc` as names too; only the names of settings are of use to a reader.
    key = ".".join(filter(None, [path, *inner[:1]]))
    if problem["type"] == "missing":
        raise ConfigError(f"{places.prefix(path)}{shown_key(key)}: expected a value, got none")
    message = problem["msg"].removeprefix("Value error, ")
    if isinstance(problem["input"], ArgsKwargs):
        # Settings that do not go together: the message begins with the key and says what came.
        key = ".".join(filter(None, [path, message.partition(":")[0]]))
        raise ConfigError(f"{places.prefix(key)}{key}:{message.partition(':')[2]}")
    raise ConfigError(f"{places.prefix(key)}{shown_key(key)}: {_expected(message)}, got {shown(problem['input'])}")


def _expected(message: str) -> str:
    """pydantic's "Input should be greater than 0" in this project's words."""
    for start in ("Input should be a valid ", "Input should be ", "String should have "):
        if message.startswith(start):
            return f"expected {message.removeprefix(start)}"
    return message


def _settings_class(hint: Any) -> Any:
    """The settings class within a type hint: itself, or the one member of a union; None where there is none."""
    if is_dataclass(hint):
        return hint
    if get_origin(hint) is Annotated:
        return _settings_class(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        found = [inner for inner in map(_settings_class, get_args(hint)) if inner is not None]
        return found[0] if len(found) == 1 else None
    return None


def _settings_by_name(hint: Any) -> Any:
    """The settings class that a type hint has as values of a dictionary; None where there is none."""
    return _settings_class(get_args(hint)[1]) if get_origin(hint) is dict else None


def _elsewhere(name: str) -> str | None:
    """The dotted key of that very name in another section, where there is one."""
    sections: dict[str, list[Any]] = {
        "model": list(MODEL_CONFIGS.values()),
        "task": list(TASK_CONFIGS.values()),
        "curator": list(CURATOR_CONFIGS.values()),
    }
    hints = get_type_hints(RunConfig, include_extras=True)
    for item in fields(RunConfig):
        kind = _settings_class(hints[item.name])
        if kind is not None:
            sections[item.name] = [kind]
        elif item.name == name:
            return item.name
    for section, kinds in sections.items():
        for kind in kinds:
            for item in fields(kind):
                if item.name == name:
                    return f"{section}.{name}"
                inner = _settings_class(get_type_hints(kind, include_extras=True)[item.name])
                if inner is not None and name in {field.name for field in fields(inner)}:
                    return f"{section}.{item.name}.{name}"
    return None


def _lists_for_tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _lists_for_tuples(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_lists_for_tuples(item) for item in value]
    return value
