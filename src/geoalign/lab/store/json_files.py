"""JSON, YAML and JSON lines in files, written durably; a file that is wrong is named, with the line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from geoalign.errors import RunFolderError
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


def read_lines(path: Path, notes: list[str] | None = None) -> list[dict[str, Any]]:
    """The objects of a file of lines that this package wrote; none where it is absent.

    A broken last line, a kill's work, is left out; `notes` takes what is left out or not there.
    """
    notes = [] if notes is None else notes
    if not path.is_file():
        notes.append(f"{path.name} is not there (yet)")
        return []
    lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
    if not lines:
        notes.append(f"{path.name} is empty")
    values = []
    for number, line in enumerate(lines, start=1):
        try:
            values.append(json.loads(line))
        except ValueError:
            if number < len(lines):
                raise
            notes.append(f"{path.name}: the last line is incomplete and is left out")
    return values


def read_text(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        got = "none" if isinstance(error, FileNotFoundError) else brief(error, 120)
        raise RunFolderError(f"{path.name}: expected a readable file, got {got} in {path.parent}") from error


def read_yaml(path: Path) -> tuple[dict[str, Any], str]:
    """A file of settings that this package has written, and its text."""
    text = read_text(path)
    return _mapping(path, lambda text: parse_yaml(text, str(path))[0], text), text


def read_json(path: Path) -> dict[str, Any]:
    """A file that holds one JSON object."""
    return _mapping(path, json.loads, read_text(path))


def _mapping(path: Path, parse: Callable[[str], Any], text: str) -> dict[str, Any]:
    try:
        value, got = parse(text), ""
    except ValueError as error:
        value, got = None, brief(error, 120)
    if not isinstance(value, dict):
        raise RunFolderError(f"{path}: expected a mapping, got {got or type(value).__name__}")
    return value


# Values from JSON, taken for numbers.

# Sums, squares and differences of such numbers stay finite; nothing that is logged comes near.
LARGEST = 1e100


def number(value: Any) -> float | None:
    """A number of at most 1e100 in size; None for anything else: text, booleans, NaN, infinities, larger ones."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -LARGEST <= value <= LARGEST else None


def float_or_nan(value: Any) -> float:
    """A number as JSON holds it, null as NaN."""
    return math.nan if value is None else float(value)
