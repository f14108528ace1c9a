"""Response files: one generated response a line with the prompt that it answers, as the judge reads them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, StrictInt, StrictStr, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from geoalign.dumps.files import checked
from geoalign.dumps.json_rows import json_lines
from geoalign.errors import ConfigError, InputError
from geoalign.files.durable import write_atomically
from geoalign.text import one_line

Key = tuple[str, str, int]


class Message(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]
    role: Literal["system", "user", "assistant", "tool"]
    content: StrictStr


def _utf8(text: str) -> str:
    text.encode()  # an error where it holds half of a surrogate pair: names go into tables and file names
    return text


_Name = Annotated[StrictStr, AfterValidator(_utf8)]


@dataclass(frozen=True)
class SavedResponse:
    """One response to a prompt: `sample` numbers those to one, from 0; `truncated`: it reached the length limit."""

    set: _Name
    id: _Name
    sample: Annotated[StrictInt, Field(ge=0)]
    prompt: Annotated[tuple[Message, ...], Field(min_length=1)]
    response: StrictStr
    truncated: StrictBool

    @property
    def key(self) -> Key:
        return (self.set, self.id, self.sample)


_ROW = TypeAdapter(SavedResponse)


def write_responses(path: Path, rows: Iterable[SavedResponse]) -> None:
    """Writes a response file (.jsonl or .jsonl.gz) at once: a reader sees none, an older one, or all of it.

    Characters that UTF-8 cannot hold (lone surrogates) are written as JSON escapes and read back as they were.
    """
    lines = [json.dumps(asdict(row), ensure_ascii=False, allow_nan=False) + "\n" for row in rows]
    # Only surrogates fail to encode, and Python's backslash form of one is its JSON escape.
    data = "".join(lines).encode("utf-8", errors="backslashreplace")
    write_atomically(path, gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)


def read_responses(path: Path) -> dict[Key, SavedResponse]:
    """The responses of a file in their order; empty lines are passed over, further keys of a row too."""
    check_response_file(path)
    if not path.is_file():
        raise ConfigError(f"{path}: expected a file of responses, got none there")
    rows: dict[Key, SavedResponse] = {}
    for line, value in checked(json_lines(path), path, "line"):
        try:
            row = _ROW.validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(map(str, first["loc"]))
            raise InputError(
                f"{path}, {line}: {name}: {one_line(first['msg'])}, got {one_line(first['input'])}"
            ) from error
        if row.key in rows:
            raise InputError(f"{path}, {line}: a second response for {row.key}, its set, id and sample; keep one")
        rows[row.key] = row
    if not rows:
        raise InputError(f"{path}: expected at least one response, got an empty file")
    return rows


def check_response_file(path: Path) -> None:
    """Raises ConfigError for a name with another ending than .jsonl or .jsonl.gz."""
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        raise ConfigError(f"{path}: expected a name that ends in .jsonl or .jsonl.gz")
