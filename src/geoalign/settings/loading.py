"""From plain data to typed settings, and back: unknown keys are errors with the nearest known one, file and line."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import ValidationError
from pydantic_core import ArgsKwargs

from geoalign.errors import ConfigError
from geoalign.settings.locations import LONGEST_KEY, Locations, joined
from geoalign.settings.secrets import refuse_secrets
from geoalign.text import escape, quote


@dataclass(frozen=True)
class ByType:
    """A union of settings classes of which a section's `type` picks one of `kinds`; `default` where it names none.

    With `by_name` a text stands for a section that has this `type` and nothing else.
    """

    kinds: Mapping[str, Any]
    default: str
    by_name: bool = False


def by_type(hint: Any) -> ByType | None:
    """The union that a type hint stands for; its first member is the default. None: it is no union by `type`."""
    if get_origin(hint) is Annotated:
        marked = [item for item in hint.__metadata__ if isinstance(item, ByType)]
        return marked[0] if marked else by_type(get_args(hint)[0])
    if get_origin(hint) not in (Union, types.UnionType):
        return None
    members = [member for member in get_args(hint) if is_dataclass(member) and hasattr(member, "type")]
    kinds = {member.type: member for member in members}
    return ByType(kinds, next(iter(kinds))) if len(kinds) > 1 else None


def load_settings(kind: Any, data: Any, locations: Locations | None = None, *, path: str = "") -> Any:
    """The settings of one class from plain data, whose own dotted key is `path`; ConfigErrors name key and location."""
    locations = locations or Locations()
    refuse_secrets(data, locations, path)
    return _Loader(locations).section(kind, path, data)


def load_member(union: ByType, data: Any, *, path: str) -> Any:
    """The settings of the member that plain data's `type` picks, as `load_settings` reads those of one class."""
    refuse_secrets(data, Locations(), path)
    return _Loader(Locations()).member(union, path, data)


# The types of a class's fields, read once: evaluating them was most of what loading a run's settings took.
_hints: Callable[[Any], dict[str, Any]] = cache(partial(get_type_hints, include_extras=True))


def plain_settings(settings: Any) -> dict[str, Any]:
    """Settings as nested dicts and lists of plain values, which `load_settings` reads as the same settings."""
    hints = _hints(type(settings))
    plain = {item.name: _plain(getattr(settings, item.name), hints[item.name]) for item in fields(settings)}
    return {"type": plain.pop("type"), **plain} if "type" in plain else plain


def plain_section(settings: Any) -> dict[str, Any]:
    """A member of a union by type as a section: its `type`, and each setting."""
    return {"type": settings.type, **plain_settings(settings)}


def check_keys(data: Mapping[str, Any], known: Iterable[str], section: str, locations: Locations) -> None:
    """Raises ConfigError for the first key of `data` that is not in `known`, naming the nearest one that is."""
    known = list(known)
    for last in map(str, data):
        if last in known:
            continue
        near = nearest(last, known)
        if "." in last:
            expected = "expected a section within a section, not a key with dots"
        elif near:
            expected = f"expected {joined(section, near)}, the nearest known key"
        elif len(known) > 20:
            expected = f"expected one of the {len(known)} options known there"
        else:
            expected = f"expected one of {', '.join(sorted(known)) or '(none: it takes no settings)'}"
        key = joined(section, last)
        raise ConfigError(f"{locations.prefix(key)}{escape(key)}: unknown key: {expected}; got {quote(last)}")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like another, in whatever case that is written; None where none is like it."""
    known = list(known)
    for spelling in (name[:LONGEST_KEY], name[:LONGEST_KEY].lower()):
        if found := difflib.get_close_matches(spelling, known, n=1, cutoff=0.6):
            return found[0]
    return None


@dataclass(frozen=True)
class _Loader:
    locations: Locations

    def section(self, kind: Any, path: str, data: Any) -> Any:
        values = self._mapping(path, data)
        check_keys(values, [item.name for item in fields(kind)], path, self.locations)
        hints = _hints(kind)
        for name, value in values.items():
            values[name] = self._value(hints[name], joined(path, name), value)
        return self._construct(kind, path, values)

    def _value(self, hint: Any, path: str, value: Any) -> Any:
        if is_dataclass(value):
            return value
        if union := by_type(hint):
            return self.member(union, path, value)
        if is_dataclass(hint):
            return self.section(hint, path, value)
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self._value(arguments[0], path, value)
        if origin in (tuple, list) and (by_type(arguments[0]) or is_dataclass(arguments[0])):
            if not isinstance(value, (list, tuple)):
                raise self._wrong(path, "expected a list of sections", value)
            return origin(self._value(arguments[0], f"{path}.{number}", item) for number, item in enumerate(value))
        if origin is dict and arguments[1] is Any:
            return self._mapping(path, value)
        if not isinstance(value, Mapping):
            return value
        if (within := _settings_class(hint)) is not None:
            return self.section(within, path, value)
        if origin is dict and _settings_class(arguments[1]) is not None:
            return {key: self._value(arguments[1], f"{path}.{key}", item) for key, item in value.items()}
        return value

    def member(self, union: ByType, path: str, value: Any) -> Any:
        named = union.by_name and isinstance(value, str)
        values = {"type": value} if named else self._mapping(path, value)
        name = values.pop("type", union.default)
        if not isinstance(name, str) or name not in union.kinds:
            near = nearest(name, union.kinds) if isinstance(name, str) else None
            hint = f" (nearest: {near})" if near else ""
            key = path if named else f"{path}.type"
            raise ConfigError(
                f"{self.locations.prefix(key)}{key}: expected one of {', '.join(sorted(union.kinds))}{hint}; "
                f"got {quote(name)}"
            )
        return self.section(union.kinds[name], path, values)

    def _mapping(self, path: str, value: Any) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self._wrong(path, "expected a section of settings", value)
        return dict(value)

    def _wrong(self, key: str, expected: str, value: Any) -> ConfigError:
        return ConfigError(f"{self.locations.prefix(key)}{escape(key)}: {expected}, got {quote(value)}")

    def _construct(self, kind: Any, path: str, values: Mapping[str, Any]) -> Any:
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
            raise ConfigError(f"{self.locations.prefix(path)}{escape(key)}: expected a value, got none")
        message = problem["msg"].removeprefix("Value error, ")
        if isinstance(problem["input"], ArgsKwargs):
            # Settings that do not go together: the message begins with the key and says what came.
            key = ".".join(filter(None, [path, message.partition(":")[0]]))
            raise ConfigError(f"{self.locations.prefix(key)}{key}:{message.partition(':')[2]}")
        raise self._wrong(key, _expected(message), problem["input"])


def _plain(value: Any, hint: Any) -> Any:
    if is_dataclass(value):
        return plain_section(value) if by_type(hint) else plain_settings(value)
    if isinstance(value, Mapping):
        return {key: _plain(item, Any) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        item_hint = get_args(hint)[0] if get_origin(hint) is tuple else Any
        return [_plain(item, item_hint) for item in value]
    return value


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
        inside = [inner for inner in map(_settings_class, get_args(hint)) if inner is not None]
        return inside[0] if len(inside) == 1 else None
    return None
