"""Durable files: written beside their place and renamed, lines appended whole, so that a kill leaves them readable."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.lab.store.strict_json import strict_json


def write_atomically(path: Path, content: str | bytes) -> None:
    """Writes a file beside its place, to the disk, then renames it: a reader sees the old or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".tmp")
    data = content.encode("utf-8") if isinstance(content, str) else content
    with named(path), beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Gives the system's errors of reading and writing, such as that of a full disk, the name of their file."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.strerror is not None:
            error.filename = str(path)
        raise


def sync_folder(folder: Path) -> None:
    """Brings a folder's entries to the disk, so that a rename survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes a JSON file atomically; NaN and infinities become null."""
    write_atomically(path, json_text(value))


def json_text(value: Mapping[str, Any]) -> str:
    """What `write_json` writes."""
    text = json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # Only lone surrogates (of a file's name, say) fail to encode; Python's backslash form of one is its JSON escape.
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        RunFolderError: the file is unreadable or holds no object.
    """
    try:
        value = strict_json(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise RunFolderError(f"{path}: expected a JSON object, got {error}") from error
    if not isinstance(value, dict):
        raise RunFolderError(f"{path}: expected a JSON object, got {type(value).__name__}")
    return value


def append_line(path: Path, value: Mapping[str, Any]) -> None:
    """Appends one JSON object as one line, in one write."""
    append_lines(path, [value])


def append_lines(path: Path, values: Iterable[Mapping[str, Any]]) -> None:
    """Appends JSON objects as lines, in one write: a kill leaves all of them, or a cut last line that readers drop."""
    text = "".join(json.dumps(finite(value), ensure_ascii=False, allow_nan=False) + "\n" for value in values)
    with named(path), path.open("ab") as file:
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects of a file of lines; none where the file is absent. A cut last line is left out.

    Raises:
        RunFolderError: a line other than the last is no JSON object; the message has its number.
    """
    if not path.is_file():
        return []
    text = path.read_bytes().decode("utf-8", errors="replace")
    whole, _, _ = text.rpartition("\n")
    values = []
    for number, line in enumerate(whole.split("\n"), start=1):
        if not line:
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise RunFolderError(f"{path}, line {number}: expected a JSON object, got {line[:80]!r}") from error
        if not isinstance(value, dict):
            raise RunFolderError(f"{path}, line {number}: expected a JSON object, got {type(value).__name__}")
        values.append(value)
    return values


def keep_lines(path: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Cuts a file of lines down to those that `keep` accepts (and to whole lines); atomic, nothing if absent."""
    if not path.is_file():
        return
    kept = [line for line in read_lines(path) if keep(line)]
    write_atomically(path, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept))


def finite(value: Any) -> Any:
    """The same value with NaN and infinities replaced by None, in nested dicts and lists too: JSON knows neither."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def replace_folder(written: Path, place: Path) -> None:
    """Renames a folder that is completely written to its place: `place` exists only if complete.

    Every file goes to the disk first. An older folder at `place` is removed.
    """
    sync_tree(written)
    if place.exists():
        shutil.rmtree(place)
    written.replace(place)
    sync_folder(place.parent)


def sync_tree(folder: Path) -> None:
    """Brings every file below a folder to the disk."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    sync_folder(folder)
