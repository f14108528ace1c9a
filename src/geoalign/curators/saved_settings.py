"""The settings of a curator in its saved state, and how they differ from those of the one that loads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

from geoalign.errors import ConfigError
from geoalign.settings.loading import plain_settings
from geoalign.text import quote

if TYPE_CHECKING:
    from geoalign.curators.curator import Curator


def settings_of(curator: Curator[Any]) -> dict[str, Any]:
    """A curator's settings as nested dicts and lists of plain values, those of its members among them.

    They begin with the `type` under which it is known, or the name of its class where its settings have none.
    """
    config = curator.config
    name = getattr(config, "type", type(curator).__name__)
    values = plain_settings(config) if is_dataclass(config) else {}
    plain: dict[str, Any] = _plain({"type": name, **values})
    return plain


def _plain(value: Any) -> Any:
    """The value as a file holds it: dicts, lists, numbers, booleans, None and text; anything else as its text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def other_settings(saved: Any, now: Mapping[str, Any]) -> str:
    """The settings that differ, each with both values: "denoise.window: saved with 10, now 3"; "" where none does."""
    return "; ".join(_differences(saved, now, str(now["type"])))


def _differences(saved: Any, now: Any, path: str) -> list[str]:
    """A line for each setting below `path` that differs; sections of different types differ as a whole."""
    if isinstance(saved, Mapping) and isinstance(now, Mapping) and saved.get("type") == now.get("type"):
        lines = []
        for name in dict.fromkeys([*now, *saved]):
            if name not in saved:
                lines.append(f"{path}.{name}: saved without, now {_shown(now[name])}")
            elif name not in now:
                lines.append(f"{path}.{name}: saved with {_shown(saved[name])}, now unknown")
            else:
                lines += _differences(saved[name], now[name], f"{path}.{name}")
        return lines
    if isinstance(saved, list) and isinstance(now, list) and len(saved) == len(now):
        lines = []
        for place, (before, after) in enumerate(zip(saved, now, strict=True)):
            lines += _differences(before, after, f"{path}.{place}")
        return lines
    if saved == now:
        return []
    return [f"{path}: saved with {_shown(saved)}, now {_shown(now)}"]


def _shown(value: Any) -> str:
    """A setting in a message: a section by its `type`, a list by what it has."""
    if isinstance(value, Mapping):
        return str(value.get("type", "settings"))
    if isinstance(value, list):
        return f"[{', '.join(_shown(item) for item in value)}]"
    return quote(value)


def check_state_keys(state: Mapping[str, Any], keys: Sequence[str], *, by: str) -> None:
    """Raises ConfigError unless the state of the curator `by` has exactly these keys, besides class and settings."""
    if set(state) != set(keys):
        expected = ", ".join(keys) or "(none)"
        raise ConfigError(
            f"{by} state: expected the keys {expected} beside class and settings, got {', '.join(map(str, state))}"
        )
