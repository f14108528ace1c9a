"""From plain data to typed settings, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from geoalign.errors import ConfigError
from geoalign.settings.locations import NOWHERE, Locations
from geoalign.settings.problems import explain, refuse_secrets

_adapter = cache(TypeAdapter)
_hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


def load_settings(kind: Any, data: Any, locations: Locations = NOWHERE, *, path: str = "") -> Any:
    """Settings from plain data: nested dicts, lists, numbers, texts.

    Args:
        kind: a class of settings, or a union of several of which `type` picks one.
        locations: where each dotted key was written, for messages; `path`: the dotted key of the data themselves.

    Raises:
        ConfigError: an unknown key, a value out of range, a secret; the message has location and key.
    """
    refuse_secrets(data, locations, path)
    try:
        return _adapter(kind).validate_python(data)
    except ValidationError as error:
        raise ConfigError(explain(error, data, locations, path)) from error


def plain_settings(settings: Any) -> dict[str, Any]:
    """Settings as nested dicts and lists of plain values, which `load_settings` reads as the same settings."""
    hints = _hints(type(settings))
    plain = {}
    for item in fields(settings):
        value = getattr(settings, item.name)
        # Of the one class that a field may hold no `type` is written.
        only_class = is_dataclass(value) and type(value) is hints[item.name]
        plain[item.name] = plain_settings(value) if only_class else _plain(value)
    return {"type": plain.pop("type"), **plain} if "type" in plain else plain


def plain_section(settings: Any) -> dict[str, Any]:
    """Settings that `type` picks as a section: their `type`, and each setting."""
    return {"type": settings.type, **plain_settings(settings)}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return plain_section(value) if hasattr(value, "type") else plain_settings(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
