"""Settings files as plain data, with the place of every key, so that an error can point at it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from geoalign.errors import ConfigError


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with `1e-3` read as a number (YAML 1.2), not as text (YAML 1.1)."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


@dataclass(frozen=True)
class Places:
    """Where each dotted key of the settings was written: a file and line, or a `--set` on the command line."""

    by_key: Mapping[str, str] = field(default_factory=dict)

    def of(self, key: str) -> str:
        """The place of a dotted key, or of the nearest section around it; empty where it was written nowhere."""
        while key and key not in self.by_key:
            key = key.rpartition(".")[0]
        return self.by_key.get(key, "")

    def prefix(self, key: str) -> str:
        """The place followed by a colon and a space, ready to stand before a message; empty where unknown."""
        place = self.of(key)
        return f"{place}: " if place else ""


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """A settings file as nested dicts, and the place of every dotted key in it. An empty file gives no settings.

    Raises:
        ConfigError: the file cannot be read, is no YAML mapping, or names a key twice; the message has the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a readable YAML file in UTF-8, got {error}") from error
    try:
        node = yaml.compose(text, Loader=_Loader)
        data = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: expected YAML, got {_one_line(error)}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: expected YAML, got nesting too deep to read") from error
    if node is None or data is None:
        return {}, {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected a mapping of settings, got {type(data).__name__}")
    places: dict[str, str] = {}
    _collect(node, "", path, places)
    return data, places


def parse_value(text: str) -> Any:
    """The value of a `--set key=value`, read as YAML: numbers, true/false, null, lists, text.

    Raises:
        ConfigError: the text is not YAML.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"--set: expected a YAML value, got {text!r}: {_one_line(error)}") from error


def _collect(node: yaml.Node, prefix: str, path: Path, places: dict[str, str]) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    for key_node, value_node in node.value:
        key = f"{prefix}{key_node.value}" if isinstance(key_node, yaml.ScalarNode) else f"{prefix}?"
        line = key_node.start_mark.line + 1
        if key in places:
            # PyYAML itself keeps the last of two equal keys without a word.
            raise ConfigError(f"{path}, line {line}: {key}: expected once, got a second time (first: {places[key]})")
        places[key] = f"{path}, line {line}"
        _collect(value_node, f"{key}.", path, places)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
