"""YAML 1.2 as plain data, with the location of every key: at most `MOST_BYTES`, no aliases, no tags, no key twice."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from geoalign.errors import ConfigError
from geoalign.settings.locations import dotted
from geoalign.text import one_line, quote

MOST_BYTES = 500_000

_TAG = "tag:yaml.org,2002:"
# Dates, `=` and `<<` are texts: no setting is one of the types that others make of them.
_TEXTS = [f"{_TAG}{name}" for name in ("str", "timestamp", "value", "merge")]
_PLAIN = [*_TEXTS, *(f"{_TAG}{name}" for name in ("null", "bool", "int", "float", "map", "seq"))]


def dump_yaml(data: Any) -> str:
    """Plain data as YAML that `parse_yaml` reads as the same data."""
    text = io.StringIO()
    _yaml().dump(data, text)
    return text.getvalue()


def parse_yaml(text: str, source: str, *, key: str = "", lines: bool = True) -> tuple[Any, dict[str, str]]:
    """The one document of a YAML text as plain data, None where it is empty, and the location of every dotted key.

    Args:
        source: what messages call the text; `lines`: whether they name lines as well.
        key: the dotted key whose value the text is; empty at the top.
    """
    document = _Document(source, lines)
    try:
        node = document.yaml.compose(text)
        return (None if node is None else document.value(node, key)), document.locations
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f", line {mark.line + 1}" if lines and mark is not None else ""
        said = "; ".join(one_line(part) for part in (error.context, error.problem) if part)
        raise ConfigError(f"{source}{at}: expected YAML, got {said}") from error
    except (YAMLError, RecursionError) as error:
        raise ConfigError(f"{source}: expected YAML, got {one_line(error)}") from error


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """A settings file as nested dicts, and the location of every dotted key in it. An empty file gives no settings."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: expected a readable YAML file in UTF-8, got {one_line(error)}") from error
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{path}: expected settings of at most {MOST_BYTES:,} bytes, got more")
    settings, locations = parse_yaml(text, str(path))
    if not isinstance(settings, dict | None):
        raise ConfigError(f"{path}: expected a mapping of settings, got {type(settings).__name__}")
    return settings or {}, locations


def parse_value(text: str, key: str = "", option: str = "--set") -> Any:
    """The value of a `--set key=value`, read as YAML: numbers, true/false, null, lists, text."""
    return parse_yaml(text, option, key=key, lines=False)[0]


def _yaml() -> YAML:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.representer.ignore_aliases = lambda data: True
    return yaml


@dataclass
class _Document:
    """A document on its way from ruamel's nodes to plain data; each node is met once unless an alias names it again."""

    source: str
    lines: bool
    yaml: YAML = field(default_factory=_yaml)
    locations: dict[str, str] = field(default_factory=dict)
    met: set[int] = field(default_factory=set)

    def value(self, node: Node, key: str) -> Any:
        """The plain data of a node, which stands under a dotted key."""
        if id(node) in self.met:
            at = self.locations.get(key, self.source)
            raise ConfigError(f"{at}: {key}: expected no alias (`base:` names what to build on)")
        self.met.add(id(node))
        if node.tag not in _PLAIN:
            raise self._refused(node, key, f"expected YAML without tags, got {quote(str(node.tag))}")
        if isinstance(node, MappingNode):
            return self._mapping(node, key)
        if isinstance(node, SequenceNode):
            return self._list(node, key)
        if node.tag in _TEXTS:
            return str(node.value)
        try:
            return self.yaml.constructor.construct_object(node)
        except (ValueError, KeyError) as error:
            raise self._refused(node, key, f"expected a value, got {quote(node.value)}") from error

    def _mapping(self, node: MappingNode, key: str) -> dict[str, Any]:
        read: dict[str, Any] = {}
        for name_node, value_node in node.value:
            name = name_node.value
            if not isinstance(name_node, ScalarNode) or name_node.tag not in _TEXTS:
                expected = "expected keys that are texts (in quotes where they look otherwise)"
                raise self._refused(name_node, key, expected)
            inner = dotted(key, name)
            if name in read:
                first = f" (first: {self.locations[inner]})" if self.lines else ""
                raise self._refused(name_node, inner, f"expected once, got a second time{first}")
            self.locations[inner] = self._location(name_node)
            read[name] = self.value(value_node, inner)
        return read

    def _list(self, node: SequenceNode, key: str) -> list[Any]:
        read = []
        for number, item in enumerate(node.value):
            inner = dotted(key, str(number))
            self.locations[inner] = self._location(item)
            read.append(self.value(item, inner))
        return read

    def _location(self, node: Node) -> str:
        return f"{self.source}, line {node.start_mark.line + 1}" if self.lines else self.source

    def _refused(self, node: Node, key: str, what: str) -> ConfigError:
        return ConfigError(f"{self._location(node)}: {f'{key}: ' if key else ''}{what}")
