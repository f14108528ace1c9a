"""The folder of an evaluation: what was asked for, the rows in parquet files a part at a time, and the result.

A part is there as a whole, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from geoalign.errors import ConfigError, RunFolderError
from geoalign.lab.store.columns import write_table
from geoalign.lab.store.files import LOCK, beside
from geoalign.lab.store.json_files import read_json, write_json
from geoalign.lab.store.run_folder import first_difference

SCHEMA_VERSION = 1
SETTINGS = "settings.json"
_COUNTS = b"geoalign.counts"

SCHEMA = pa.schema(
    {
        **dict.fromkeys(("model", "set", "id"), pa.string()), "sample": pa.int32(),
        **dict.fromkeys(("prompt", "response", "answer"), pa.string()), "reward": pa.float64(), "correct": pa.bool_(),
        "tokens": pa.int32(), "prompt_tokens": pa.int32(), "truncated": pa.bool_(),
    }
)  # fmt: skip


def begin(root: Path, identity: Mapping[str, Any], *, kind: str, resume: bool = True) -> None:
    """Makes a folder that of an evaluation or judging (`kind`), or checks that it is of this one (`settings.json`)."""
    settings = root / SETTINGS
    if not settings.is_file():
        # A kill while the settings were being written leaves their temporary file.
        others = sorted(path.name for path in root.iterdir() if path.name not in (LOCK, beside(settings).name))
        if others:
            raise RunFolderError(
                f"{root}: expected an empty folder or one of an earlier {kind}, got one with {others[0]}"
            )
        write_json(settings, identity)
        return
    if not resume:
        raise RunFolderError(f"{root}: expected an empty folder, got an {kind}: add --resume to resume it")
    if (difference := first_difference(identity, read_json(settings))) is not None:
        key, got, expected = difference
        raise ConfigError(
            f"{key}: expected {expected}, as the {kind} in {root}, got {got}; "
            "take the same files and settings as before, or take another --output"
        )


@dataclass(frozen=True)
class Row:
    """One response, its prompt the chat messages as JSON; a reward that is NaN could not be scored, None: is not.

    `answer` is the gold one (of a dialogue whatever its file has); `correct` is None in dialogues.
    """

    model: str
    set: str
    id: str
    sample: int
    prompt: str
    response: str
    answer: str
    reward: float | None
    correct: bool | None
    tokens: int
    prompt_tokens: int
    truncated: bool


@dataclass(frozen=True)
class Part:
    """Some rows, and counts of what happened while they were made, such as time-outs of the verification."""

    rows: tuple[Row, ...]
    counts: Mapping[str, int]


def messages_json(prompt: Sequence[Mapping[str, str]]) -> str:
    """Chat messages as a row holds them."""
    return json.dumps([{"role": message["role"], "content": message["content"]} for message in prompt])


def write_part(path: Path, part: Part) -> None:
    columns = {name: [getattr(row, name) for row in part.rows] for name in SCHEMA.names}
    table = pa.table(columns, schema=SCHEMA.with_metadata({_COUNTS: json.dumps(dict(part.counts)).encode()}))
    write_table(path, table)


def read_part(path: Path) -> Part:
    table = pq.ParquetFile(path).read()
    return Part(tuple(Row(**row) for row in table.to_pylist()), json.loads(table.schema.metadata[_COUNTS]))


class EvaluationFolder:
    """Names the files; one folder holds one evaluation: these models on these sets with these settings."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings, self.rows, self.result = root / SETTINGS, root / "rows", root / "results.json"

    def part(self, model: str, name: str, number: int) -> Path:
        return self.rows / model / name / f"part-{number:05d}.parquet"

    def begin(self, identity: Mapping[str, Any], *, resume: bool) -> None:
        begin(self.root, {"schema_version": SCHEMA_VERSION, **identity}, kind="evaluation", resume=resume)

    def write_result(self, identity: Mapping[str, Any], versions: Mapping[str, str], scores: Mapping[str, Any]) -> None:
        schema = {"schema_version": SCHEMA_VERSION}
        write_json(self.result, {**schema, "settings": {**schema, **identity}, "versions": versions, **scores})
