"""JSON, YAML and JSON lines in files, written durably; a file that is wrong is named, with the line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.files.durable import append, write_atomically
from geoalign.settings.yaml_text import parse_yaml
from geoalign.text import one_line


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
    text = json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # Only lone surrogates (of a file's name, say) fail to encode; Python's backslash form of one is its JSON escape.
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Appends one JSON object as one line, in one write."""
    append_lines(path, [value])


def append_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    """Appends JSON objects as lines, in one write: a kill leaves all of them, or a cut last line that readers drop."""
    append(path, "".join(json.dumps(finite(value), ensure_ascii=False, allow_nan=False) + "\n" for value in values))


def keep_whole_lines(path: Path) -> None:
    """Cuts the broken last line, a kill's work, off a file of lines; nothing if absent."""
    if path.is_file():
        whole, end, _ = path.read_bytes().rpartition(b"\n")
        write_atomically(path, whole + end)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of lines that this package wrote, without a last one that a kill broke; of no file none."""
    lines = [line for line in path.read_bytes().split(b"\n") if line.strip()] if path.is_file() else []
    try:
        return [json.loads(line) for line in lines]
    except ValueError:
        return [json.loads(line) for line in lines[:-1]]


def read_written_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        got = "none" if isinstance(error, FileNotFoundError) else one_line(error, 120)
        raise RunFolderError(f"{path.name}: expected a readable file, got {got} in {path.parent}") from error


def read_written_yaml(path: Path) -> tuple[dict[str, Any], str]:
    """A file of settings that this package has written, and its text."""
    text = read_written_text(path)
    return parse_yaml(text, str(path))[0], text


def read_json(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(read_written_text(path))
    return value


def float_or_nan(value: Any) -> float:
    """A number as JSON holds it, null as NaN."""
    return math.nan if value is None else float(value)


def number_or_none(value: float) -> float | None:
    """A number as JSON knows it: None for NaN."""
    return None if math.isnan(value) else value
