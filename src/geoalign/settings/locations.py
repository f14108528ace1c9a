"""Settings files as plain data, with the location of every key, so that an error can point at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.settings.yaml_text import parse_yaml, read_text
from geoalign.shown import shown_key


@dataclass(frozen=True)
class Locations:
    """Where each dotted key of the settings was written: a file and line, or a `--set` on the command line."""

    by_key: Mapping[str, str] = field(default_factory=dict)

    def of(self, key: str) -> str:
        """The location of a dotted key, or of the nearest section around it; empty where it was written nowhere."""
        while key and key not in self.by_key:
            key = key.rpartition(".")[0]
        return self.by_key.get(key, "")

    def prefix(self, key: str) -> str:
        """The location followed by a colon and a space, ready to stand before a message; empty where unknown."""
        location = self.of(key)
        return f"{location}: " if location else ""


# Of settings that no file holds.
NOWHERE = Locations()


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """A settings file as nested dicts, and the location of every dotted key in it. An empty file gives no settings.

    Raises:
        ConfigError: the file cannot be read, is no YAML mapping, is too large, names a key twice, or holds what is no
            plain data (`geoalign.settings.yaml_text.parse_yaml`); the message has the line.
    """
    data, locations = parse_yaml(read_text(path), shown_key(str(path)))
    if data is None:
        return {}, {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected a mapping of settings, got {type(data).__name__}")
    return data, locations


def parse_value(text: str, key: str = "", option: str = "--set") -> Any:
    """The value of a `--set key=value`, read as YAML: numbers, true/false, null, lists, text.

    Args:
        key: the dotted key that is set, for error messages.
        option: what error messages call the text.

    Raises:
        ConfigError: the text is no YAML value, or one that `geoalign.settings.yaml_text.parse_yaml` refuses.
    """
    return parse_yaml(text, option, key=key, lines=False)[0]
