"""YAML as plain data, every value as it was written, with bounded work and the location of every key.

PyYAML parses; what its nodes mean is decided here, because its own constructor keeps the last of two equal keys, reads
010 as 8 and 1:30 as 90, and lets a few lines of aliases grow to gigabytes.
"""

from __future__ import annotations

import math
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from geoalign.errors import ConfigError
from geoalign.settings.locations import LONGEST_KEY
from geoalign.shown import brief, shown, shown_key

MOST_BYTES = 500_000
# Values behind an alias count wherever the alias stands.
MOST_VALUES = 20_000
DEEPEST = 40
_MOST_DIGITS = 40
_WHOLE_NUMBERS = range(-(2**63), 2**63)

_TAG = "tag:yaml.org,2002:"
_FLOAT_TAG = f"{_TAG}float"
# `1e-3` is a number (YAML 1.2), not text (YAML 1.1).
_EXPONENT = re.compile(r"^[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)[eE][-+]?[0-9]+$")
_STARTS = list("-+.0123456789")
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0x[0-9a-fA-F_]+|0b[01_]+)")
_NULLS = ("", "~", "null", "Null", "NULL")
_SWITCHES = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
# Dates, `=` and `<<` as a value are texts: YAML 1.2 knows no such types, and no setting is a date.
_TEXTS = ("str", "timestamp", "value", "merge")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader up to its nodes, no deeper than `DEEPEST`."""

    depth = 0
    values = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.values += 1
        if self.depth >= DEEPEST or self.values > 2 * MOST_VALUES:
            what = f"at most {DEEPEST} levels of nesting" if self.depth >= DEEPEST else _MANY
            raise yaml.MarkedYAMLError(None, None, f"expected {what}", self.peek_event().start_mark)
        self.depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """PyYAML's safe dumper, which quotes every text that is read as something else here."""


_MANY = f"at most {MOST_VALUES:,} values, those behind aliases included"
_Loader.add_implicit_resolver(_FLOAT_TAG, _EXPONENT, _STARTS)
_Dumper.add_implicit_resolver(_FLOAT_TAG, _EXPONENT, _STARTS)


def dump_yaml(data: Any) -> str:
    """Plain data as YAML that `parse_yaml` reads as the same data."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def read_text(path: Path) -> str:
    """The text of a settings file.

    Raises:
        ConfigError: it is no regular file (a pipe or device would block, or never end), larger than `MOST_BYTES`,
            unreadable, or not in UTF-8.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise ConfigError(f"{path}: expected a readable YAML file in UTF-8, got {_kind(mode)}")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{shown_key(str(path))}: expected a readable YAML file, got {brief(error)}") from error
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{path}: expected settings of at most {MOST_BYTES:,} bytes, got more")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path}, line {line}: expected a readable YAML file in UTF-8, got the byte 0x{data[error.start]:02x}"
        ) from error


def parse_yaml(text: str, source: str, *, key: str = "", lines: bool = True) -> tuple[Any, dict[str, str]]:
    """The one document of a YAML text as dicts with text keys, lists, text, numbers, booleans and None.

    An alias gives a copy of what it names, `<<` merges mappings into one. A key's location is `source` and its line.

    Args:
        source: what error messages call the text: a file, or an option of the command line.
        key: the dotted key whose value the text is; empty: it is all settings.
        lines: messages and locations name lines.

    Returns:
        The data, None for an empty text, and the location of every dotted key.

    Raises:
        ConfigError: it is not YAML, too large or too deep, names a key twice, or has a key or value that is no such
            data, or has not the value that it seems to have: a number too large, an octal or sexagesimal one.
    """
    walk = _Walk(source, lines)
    with _told(source, text, lines):
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
    return (None if node is None else walk.value(node, key)), walk.locations


def read_yaml(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """A settings file as nested dicts, and the location of every dotted key in it. An empty file gives no settings.

    Raises:
        ConfigError: the file cannot be read, is no YAML mapping, is too large, names a key twice, or holds what is no
            plain data (`parse_yaml`); the message has the line.
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
        ConfigError: the text is no YAML value, or one that `parse_yaml` refuses.
    """
    return parse_yaml(text, option, key=key, lines=False)[0]


@dataclass
class _Walk:
    """The way through the nodes of one document."""

    source: str
    lines: bool
    locations: dict[str, str] = field(default_factory=dict)
    values: int = 0
    characters: int = 0
    above: list[yaml.Node] = field(default_factory=list)

    def value(self, node: yaml.Node, key: str) -> Any:
        self._count(node, key)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, key)
        if node.tag != f"{_TAG}{'map' if isinstance(node, yaml.MappingNode) else 'seq'}":
            raise self._tagged(node, key)
        if any(node is other for other in self.above):
            raise self.error(node, key, "expected no alias inside what it names", None)
        self.above.append(node)
        read = self._mapping(node, key) if isinstance(node, yaml.MappingNode) else self._sequence(node, key)
        self.above.pop()
        return read

    def error(self, node: yaml.Node, key: str, expected: str, got: str | None) -> ConfigError:
        after = "" if got is None else f", got {got}"
        return ConfigError(f"{self._location(node)}: {f'{shown_key(key)}: ' if key else ''}{expected}{after}")

    def _location(self, node: yaml.Node) -> str:
        return f"{self.source}, line {node.start_mark.line + 1}" if self.lines else self.source

    def _count(self, node: yaml.Node, key: str) -> None:
        self.values += 1
        self.characters += len(key) + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0)
        if self.values > MOST_VALUES:
            raise self.error(node, key, f"expected {_MANY}", None)
        if self.characters > MOST_BYTES:
            expected = f"expected at most {MOST_BYTES:,} characters, dotted keys and aliases included"
            raise self.error(node, key, expected, None)
        if len(self.above) >= DEEPEST:
            raise self.error(node, key, f"expected at most {DEEPEST} levels of nesting", None)

    def _sequence(self, node: yaml.Node, key: str) -> list[Any]:
        read = []
        for number, item in enumerate(node.value):
            inner = f"{key}.{number}" if key else str(number)
            self.locations[inner] = self._location(item)
            read.append(self.value(item, inner))
        return read

    def _mapping(self, node: yaml.MappingNode, key: str) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        first: dict[str, str] = {}
        for name_node, value_node in node.value:
            name = self._name(name_node, key)
            inner = f"{key}.{name}" if key else name
            if name in first:
                before = f" (first: {first[name]})" if self.lines else ""
                raise self.error(name_node, inner, "expected once", f"a second time{before}")
            first[name] = self._location(name_node)
            if name_node.tag == f"{_TAG}merge":
                merged = self._merged(value_node, key)
            else:
                self.locations[inner] = first[name]
                own[name] = self.value(value_node, inner)
        for name in own:
            self.locations[f"{key}.{name}" if key else name] = first[name]
        return {**merged, **own}

    def _merged(self, node: yaml.Node, key: str) -> dict[str, Any]:
        """What `<<` names: a mapping, or several, of which the earlier ones win."""
        merged: dict[str, Any] = {}
        for source in reversed(node.value) if isinstance(node, yaml.SequenceNode) else [node]:
            if not isinstance(source, yaml.MappingNode):
                raise self.error(source, f"{key}.<<" if key else "<<", "expected a section of settings", _what(source))
            merged |= self.value(source, key)
        return merged

    def _name(self, node: yaml.Node, key: str) -> str:
        if isinstance(node, yaml.ScalarNode) and node.tag.removeprefix(_TAG) in _TEXTS:
            if len(node.value) > LONGEST_KEY:
                raise self.error(node, key, f"expected keys of at most {LONGEST_KEY} characters", shown(node.value))
            return self._text(node, key)
        raise self.error(node, key, "expected keys that are texts (in quotes where they look otherwise)", _what(node))

    def _scalar(self, node: yaml.ScalarNode, key: str) -> Any:
        kind, text = node.tag.removeprefix(_TAG), node.value
        if kind in _TEXTS:
            return self._text(node, key)
        if kind == "null" and text in _NULLS:
            return None
        if kind == "bool" and text.lower() in _SWITCHES:
            return _SWITCHES[text.lower()]
        if kind == "int":
            return self._whole_number(node, key)
        if kind == "float":
            return self._number(node, key)
        if kind in ("null", "bool"):
            raise self.error(node, key, f"expected what !!{kind} names", shown(text))
        raise self._tagged(node, key)

    def _text(self, node: yaml.ScalarNode, key: str) -> str:
        if control := _CONTROL.search(node.value):
            expected = "expected text without control characters and surrogates"
            raise self.error(node, key, expected, f"U+{ord(control.group()):04X} in {shown(node.value)}")
        return str(node.value)

    def _whole_number(self, node: yaml.ScalarNode, key: str) -> int:
        text = node.value
        if _WHOLE.fullmatch(text) and len(text) <= _MOST_DIGITS:
            try:
                number = int(text.replace("_", ""), 0)
            except ValueError:
                number = _WHOLE_NUMBERS.stop
            if number in _WHOLE_NUMBERS:
                return number
        expected = "expected a decimal number of at most 64 bits (or text in quotes)"
        raise self.error(node, key, expected, shown(text))

    def _number(self, node: yaml.ScalarNode, key: str) -> float:
        text = node.value.replace("_", "")
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        lost = number == 0 and re.search("[1-9]", re.split("[eE]", text)[0])
        if lost or not math.isfinite(number):
            expected = "expected a finite decimal number (or text in quotes)"
            raise self.error(node, key, expected, shown(node.value))
        return number

    def _tagged(self, node: yaml.Node, key: str) -> ConfigError:
        tag = node.tag.replace(_TAG, "!!")
        return self.error(node, key, "expected YAML without such tags", shown(tag))


@contextmanager
def _told(source: str, text: str, lines: bool) -> Iterator[None]:
    """PyYAML's errors as this package's: the line, and what is wrong there."""
    what = "YAML" if lines else "a YAML value"
    try:
        yield
    except yaml.reader.ReaderError as error:
        at = error.position if isinstance(error.position, int) else 0
        location = f"{source}, line {text.count(chr(10), 0, at) + 1}" if lines else source
        code = error.character if isinstance(error.character, int) else ord(error.character)
        raise ConfigError(f"{location}: expected {what}, got the character U+{code:04X}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        location = f"{source}, line {mark.line + 1}" if lines and mark is not None else source
        said = "; ".join(brief(part) for part in (error.context, error.problem) if part)
        limit = said.startswith("expected at most")
        raise ConfigError(f"{location}: {said if limit else f'expected {what}, got {said}'}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"{source}: expected {what}, got {brief(error)}") from error


def _what(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return shown(node.value)
    return "a section" if isinstance(node, yaml.MappingNode) else "a list"


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"
