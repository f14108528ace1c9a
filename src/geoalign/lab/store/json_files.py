"""JSON, YAML and JSON lines in files, written durably and read strictly: who is wrong is named by file and line."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from geoalign.errors import RunFolderError
from geoalign.lab.store.files import append, write_atomically
from geoalign.lab.store.strict_json import strict_json
from geoalign.shown import brief

# Nothing that is written here nests deeper; what does would end in the recursion limit of whoever walks through it.
DEEPEST = 50
# Aliases of YAML can stand for more than any program can walk through.
_MOST = 1_000_000


def finite(value: Any) -> Any:
    """The same value with NaN and infinities replaced by None, in nested dicts and lists too: JSON knows neither."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes a JSON file atomically; NaN and infinities become null."""
    write_atomically(path, json_text(value))


def json_text(value: Mapping[str, Any]) -> str:
    """What `write_json` writes."""
    text = json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # Only lone surrogates (of a file's name, say) fail to encode; Python's backslash form of one is its JSON escape.
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Appends one JSON object as one line, in one write."""
    append_lines(path, [value])


def append_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    """Appends JSON objects as lines, in one write: a kill leaves all of them, or a cut last line that readers drop."""
    append(path, "".join(json.dumps(finite(value), ensure_ascii=False, allow_nan=False) + "\n" for value in values))


def keep_lines(path: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Cuts a file of lines down to those that `keep` accepts (and to whole lines); atomic, nothing if absent."""
    if not path.is_file():
        return
    kept = [line for line in read_lines(path) if keep(line)]
    write_atomically(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file of lines; none where it is absent. A broken last line, a kill's work, is left out.

    Raises:
        RunFolderError: as `numbered_lines`.
    """
    return [value for value, _ in numbered_lines(path, [])]


def numbered_lines(path: Path, notes: list[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects of a file of lines, each with its line and file; what is left out, or not there, is noted.

    Raises:
        RunFolderError: another line than the last is no JSON object; the message has its number.
    """
    if not present(path):
        notes.append(f"{path.name} is not there (yet)")
        return
    lines = [(number, line) for number, line in enumerate(path.read_bytes().split(b"\n"), 1) if line.strip()]
    if not lines:
        notes.append(f"{path.name} is empty")
    for number, line in lines:
        try:
            value = strict_json(line)
        except ValueError as error:
            if number == lines[-1][0]:
                notes.append(f"{path.name}: the last line is incomplete and is left out")
                return
            raise RunFolderError(f"{path}, line {number}: expected a JSON object, got {brief(error, 120)}") from error
        if not isinstance(value, dict):
            raise RunFolderError(f"{path}, line {number}: expected a JSON object, got {type(value).__name__}")
        yield value, f"line {number} of {path}"


def present(path: Path, kind: str = "file") -> bool:
    """Whether there is a file (or a folder) of that name.

    Raises:
        RunFolderError: something else has the name: a folder, a link that leads nowhere, a pipe.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        if os.path.lexists(path):
            raise RunFolderError(f"{path}: expected a {kind}, got {brief(error, 120)}") from error
        return False
    if not (stat.S_ISREG(mode) if kind == "file" else stat.S_ISDIR(mode)):
        other = "a folder" if stat.S_ISDIR(mode) else "a file" if stat.S_ISREG(mode) else "a pipe or device"
        raise RunFolderError(f"{path}: expected a {kind}, got {other}")
    return True


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        RunFolderError: it is not there, not readable, or no UTF-8.
    """
    if not present(path):
        raise RunFolderError(f"{path.name}: expected a readable file, got none in {path.parent}")
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(
            f"{path.name}: expected a readable file, got {brief(error, 120)} in {path.parent}"
        ) from error


def read_yaml(path: Path) -> tuple[dict[str, Any], str]:
    """A file of settings, and its text.

    Raises:
        RunFolderError: it is not there or no whole YAML mapping; the message has the file.
    """
    text = read_text(path)
    try:
        value = yaml.safe_load(text)
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError, yaml.YAMLError) as error:
        problem = "nesting too deep" if isinstance(error, RecursionError) else brief(error, 120)
        raise RunFolderError(f"{path.name}: expected a whole YAML file, got {problem} in {path}") from error
    return _object(value, path, "a mapping"), text


def read_json(path: Path) -> dict[str, Any]:
    """A file that holds one JSON object.

    Raises:
        RunFolderError: it is not there, cut off, or something else.
    """
    try:
        value = strict_json(read_text(path))
    except ValueError as error:
        raise RunFolderError(f"{path}: expected a JSON object, got {brief(error, 120)}") from error
    return _object(value, path, "a JSON object")


def _object(value: Any, where: Path, kind: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RunFolderError(f"{where}: expected {kind}, got {type(value).__name__}")
    if too_deep(value) or _entries(value, {}) > _MOST:
        raise RunFolderError(f"{where}: expected {kind}, got one that nests too deep or repeats itself without end")
    return value


def _entries(value: Any, known: dict[int, int]) -> int:
    """Lists and mappings inside a value, those that aliases name again counted again."""
    if id(value) not in known:
        known[id(value)] = 1 + sum(_entries(inner, known) for inner in _inside(value))
    return known[id(value)]


def too_deep(value: Any) -> bool:
    """Whether lists and mappings nest more than 50 deep; one that holds itself does."""
    level = [value]
    for _ in range(DEEPEST + 1):
        # Each once: aliases of YAML may name one list a thousand times.
        level = list({id(inner): inner for item in level for inner in _inside(item)}.values())
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    """The lists and mappings that a value holds."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [item for item in inner if isinstance(item, dict | list)]
