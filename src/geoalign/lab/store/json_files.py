"""JSON, YAML and JSON lines in files, written durably; a file that is wrong is named, with the line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, RunFolderError
from geoalign.lab.store.files import append, write_atomically
from geoalign.settings.yaml_text import parse_yaml
from geoalign.shown import brief


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
    if not path.is_file():
        notes.append(f"{path.name} is not there (yet)")
        return
    lines = [(number, line) for number, line in enumerate(path.read_bytes().split(b"\n"), 1) if line.strip()]
    if not lines:
        notes.append(f"{path.name} is empty")
    for number, line in lines:
        try:
            value = json.loads(line)
        except ValueError as error:
            if number == lines[-1][0]:
                notes.append(f"{path.name}: the last line is incomplete and is left out")
                return
            raise RunFolderError(f"{path}, line {number}: expected a JSON object, got {brief(error, 120)}") from error
        yield _object(value, f"{path}, line {number}", "a JSON object"), f"line {number} of {path}"


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        RunFolderError: it is not there, or not readable.
    """
    if not path.exists():
        raise RunFolderError(f"{path.name}: expected a readable file, got none in {path.parent}")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(
            f"{path.name}: expected a readable file, got {brief(error, 120)} in {path.parent}"
        ) from error


def read_yaml(path: Path) -> tuple[dict[str, Any], str]:
    """A file of settings that this package has written, and its text.

    Raises:
        RunFolderError: it is not there or no YAML mapping; the message has the file.
    """
    text = read_text(path)
    try:
        value, _ = parse_yaml(text, str(path))
    except ConfigError as error:
        raise RunFolderError(str(error)) from error
    return _object(value, path, "a mapping"), text


def read_json(path: Path) -> dict[str, Any]:
    """A file that holds one JSON object.

    Raises:
        RunFolderError: it is not there, or something else.
    """
    try:
        value = json.loads(read_text(path))
    except ValueError as error:
        raise RunFolderError(f"{path}: expected a JSON object, got {brief(error, 120)}") from error
    return _object(value, path, "a JSON object")


def _object(value: Any, where: object, kind: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RunFolderError(f"{where}: expected {kind}, got {type(value).__name__}")
    return value
