"""What is wrong with settings, in one line: where it was written, which key, what was expected, what came."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ArgsKwargs, ErrorDetails

from geoalign.errors import ConfigError
from geoalign.secrets import find_secret, masked
from geoalign.settings.locations import NOWHERE, Locations, dotted
from geoalign.text import listed, quote

# Of pydantic's kinds of errors, those that are said in words of YAML. Others are said as pydantic does.
_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text",
    "string_pattern_mismatch": "a text that matches {pattern}",
    "dict_type": "a section of settings",
    "model_attributes_type": "a section of settings",
    "list_type": "a list",
    "tuple_type": "a list",
    "unexpected_positional_argument": "settings by keyword",
}
# A key that is longer is compared by its beginning.
_LONGEST_KEY = 200


def explain(error: ValidationError, data: Any, locations: Locations = NOWHERE, path: str = "") -> str:
    """The first problem that pydantic found, as one line; of the members of a union, that of the one that got furthest.

    Args:
        error: what pydantic raised.
        data: the plain data that it was given.
        locations: where each dotted key was written.
        path: the dotted key under which the data stand; empty at the top.
    """
    problem, *others = error.errors()
    first = _path_in(data, problem["loc"])
    parts = first
    for other in others:
        further = _path_in(data, other["loc"])
        if len(further) > len(parts) and further[: len(first)] == first:
            problem = other
            parts = further
    key, words = _key_and_words(problem, dotted(path, *parts), section=dotted(path, *parts[:-1]))
    return f"{locations.prefix(key)}{key}: {words}"


def _path_in(data: Any, loc: tuple[str | int, ...]) -> list[str]:
    """The way through the data that an error's location names; what is not in the data names a member of a union."""
    path = []
    for part in loc:
        if isinstance(data, Mapping):
            known = part in data
        else:
            known = isinstance(data, (list, tuple)) and isinstance(part, int) and part < len(data)
        if known:
            path.append(str(part))
            data = data[part]
    return path


def _key_and_words(problem: ErrorDetails, key: str, section: str) -> tuple[str, str]:
    """The dotted key of the setting at fault, and what was expected and what came.

    Args:
        key: the dotted key of the data at fault, which may be the section that holds the setting; section: that of the
            section around these data.
    """
    kind = problem["type"]
    value = problem["input"]
    message = problem["msg"].removeprefix("Value error, ")
    if kind == "unknown_key":
        return key, _unknown(section, value, problem["ctx"]["known"])
    if kind == "missing":
        return dotted(key, str(problem["loc"][-1])), "expected a value, got none"
    if kind == "union_tag_invalid":
        names = re.findall(r"'([^']*)'", problem["ctx"]["expected_tags"])
        if isinstance(value, Mapping):
            return dotted(key, "type"), _unknown_type(value["type"], names)
        return key, _unknown_type(value, names)
    if isinstance(value, ArgsKwargs):
        # Settings that do not go together: the message begins with the name of one and says what came.
        name, _, words = message.partition(": ")
        return dotted(key, name), words
    if kind in _EXPECTED:
        message = f"expected {_EXPECTED[kind].format(**problem.get('ctx', {}))}"
    message = re.sub(r"^(Input should be|String should have) ", "expected ", message)
    return key, f"{message}, got {quote(value)}"


def _unknown_type(name: Any, known: Iterable[str]) -> str:
    near = nearest(name, known) if isinstance(name, str) else None
    hint = f" (nearest: {near})" if near else ""
    return f"expected one of {', '.join(sorted(known))}{hint}; got {quote(name)}"


def check_keys(data: Mapping[str, Any], known: Iterable[str], section: str, locations: Locations) -> None:
    """Raises ConfigError for the first key of `data` that is not in `known`, naming the nearest one that is."""
    known = list(known)
    for name in map(str, data):
        if name not in known:
            key = dotted(section, name)
            raise ConfigError(f"{locations.prefix(key)}{key}: {_unknown(section, name, known)}")


def _unknown(section: str, name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    if "." in name:
        expected = "expected a section within a section, not a key with dots"
    elif near:
        expected = f"expected {dotted(section, near)}, the nearest known key"
    else:
        expected = f"expected one of {listed(sorted(known)) or '(none: it takes no settings)'}"
    return f"unknown key: {expected}; got {quote(name)}"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like another, in whatever case that is written; None where none is like it."""
    known = list(known)
    for spelling in (name[:_LONGEST_KEY], name[:_LONGEST_KEY].lower()):
        found = difflib.get_close_matches(spelling, known, n=1, cutoff=0.6)
        if found:
            return found[0]
    return None


def refuse_secrets(data: Any, locations: Locations = NOWHERE, path: str = "") -> None:
    """Raises ConfigError for a secret in plain settings below `path`, which names the setting and not the value."""
    found = find_secret(data, path)
    if found is not None:
        key, said = found
        raise ConfigError(f"{masked(locations.prefix(key))}{key}: {said}")
