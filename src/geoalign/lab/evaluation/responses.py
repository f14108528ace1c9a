"""Response files: one generated response a line with the prompt that it answers, as the judge reads them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, InputError
from geoalign.lab.store.files import write_atomically
from geoalign.lab.tasks.rows import checked, json_lines
from geoalign.shown import listed, shown

Key = tuple[str, str, int]

ROLES = ("system", "user", "assistant", "tool")
_ENDINGS = (".jsonl", ".jsonl.gz")


@dataclass(frozen=True)
class SavedResponse:
    """One response.

    Attributes:
        set: the evaluation set, such as `helpful` or `harmless`.
        id: of the prompt in its set.
        sample: number of the response among those to one prompt, from 0.
        prompt: chat messages, each of a `role` and a `content`.
        truncated: it reached the length limit without an end.
    """

    set: str
    id: str
    sample: int
    prompt: tuple[dict[str, str], ...]
    response: str
    truncated: bool

    @property
    def key(self) -> Key:
        """What names a response: set, id, sample."""
        return (self.set, self.id, self.sample)


@dataclass(frozen=True)
class ResponseFile:
    """The responses of a file in their order, each with its line ("line 3")."""

    path: Path
    rows: tuple[SavedResponse, ...]
    lines: tuple[str, ...]


def write_responses(path: Path, rows: Iterable[SavedResponse]) -> None:
    """Writes a response file (.jsonl or .jsonl.gz) at once: a reader sees none, an older one, or all of it.

    Characters that UTF-8 cannot hold (lone surrogates) are written as JSON escapes and read back as they were.
    """
    check_response_file(path)
    seen: set[Key] = set()
    lines = []
    for row in rows:
        if row.key in seen:
            raise InputError(f"{path}: expected one response for each (set, id, sample), got two for {row.key}")
        seen.add(row.key)
        lines.append(json.dumps(asdict(row), ensure_ascii=False, allow_nan=False) + "\n")
    # Only surrogates fail to encode, and Python's backslash form of one is its JSON escape.
    data = "".join(lines).encode("utf-8", errors="backslashreplace")
    write_atomically(path, gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)


def read_responses(path: Path) -> ResponseFile:
    """Reads a response file; empty lines are passed over, further keys of a row too. What is wrong with a line is an
    InputError that has the line."""
    check_response_file(path)
    if not path.is_file():
        raise ConfigError(f"{path}: expected a file of responses, got none there")
    rows: dict[Key, SavedResponse] = {}
    lines: dict[Key, str] = {}
    for line, value in checked(json_lines(path), path, "line"):
        row = _response(value, f"{path}, {line}")
        if row.key in rows:
            raise InputError(
                f"{path}, {line}: expected one response for each (set, id, sample), got a second one for {row.key} "
                f"after {lines[row.key]}"
            )
        rows[row.key], lines[row.key] = row, line
    if not rows:
        raise InputError(f"{path}: expected at least one response, got an empty file")
    return ResponseFile(path, tuple(rows.values()), tuple(lines.values()))


def check_response_file(path: Path) -> None:
    """Raises ConfigError for a name with another ending than .jsonl or .jsonl.gz."""
    if not path.name.endswith(_ENDINGS):
        raise ConfigError(f"{path}: expected a name that ends in .jsonl or .jsonl.gz")


_FIELDS = {"set": str, "id": str, "sample": int, "prompt": list, "response": str, "truncated": bool}


def _response(value: dict[str, Any], where: str) -> SavedResponse:
    fields = {name: _field(value, name, kind, where) for name, kind in _FIELDS.items()}
    for name in ("set", "id"):
        if any("\ud800" <= letter <= "\udfff" for letter in fields[name]):
            raise InputError(f"{where}: {name}: expected text that UTF-8 can hold, got {shown(fields[name])}")
    if fields["sample"] < 0:
        raise InputError(f"{where}: sample: expected 0 or more, got {fields['sample']}")
    if not fields["prompt"]:
        raise InputError(f"{where}: prompt: expected at least one chat message, got none")
    prompt = [_message(message, f"{where}: prompt.{number}") for number, message in enumerate(fields["prompt"])]
    return SavedResponse(**{**fields, "prompt": tuple(prompt)})


def _message(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or set(value) != {"role", "content"}:
        got = listed(sorted(map(str, value))) if isinstance(value, dict) else type(value).__name__
        raise InputError(f"{where}: expected a chat message of role and content, got {got}")
    role, content = (_field(value, name, str, where) for name in ("role", "content"))
    if role not in ROLES:
        raise InputError(f"{where}.role: expected one of {', '.join(ROLES)}, got {shown(role)}")
    return {"role": role, "content": content}


def _field(value: dict[str, Any], name: str, kind: type, where: str) -> Any:
    if name not in value:
        raise InputError(f"{where}: {name}: expected {kind.__name__}, got no such key")
    # By type itself: a bool is an int to Python, not in JSON.
    if type(value[name]) is not kind:
        raise InputError(f"{where}: {name}: expected {kind.__name__}, got {type(value[name]).__name__}")
    return value[name]
