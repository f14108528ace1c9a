"""The folder of an evaluation: what its rows depend on, the rows in parquet files a part at a time, and the result.

A part is there as a whole, or not at all. A row is known by (model, set, id, sample), whatever part it stands in: so an
evaluation goes on with another batch size, more samples, more problems, further sets and further models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from geoalign.errors import ConfigError, RunFolderError
from geoalign.files.columns import write_table
from geoalign.files.json_files import read_json, write_json
from geoalign.lab.runs.resuming import SETTINGS, check_empty, check_same
from geoalign.text import one_line

# 1: the batch size and the number of samples belonged to the settings, and rows were known by their part.
SCHEMA_VERSION = 2
_COUNTS = b"geoalign.counts"

SCHEMA = pa.schema(
    {
        **dict.fromkeys(("model", "set", "id"), pa.string()), "sample": pa.int32(),
        **dict.fromkeys(("prompt", "response", "answer"), pa.string()), "reward": pa.float64(), "correct": pa.bool_(),
        "tokens": pa.int32(), "prompt_tokens": pa.int32(), "truncated": pa.bool_(),
    }
)  # fmt: skip


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
    try:
        table = pq.ParquetFile(path).read()
        counts = json.loads(table.schema.metadata[_COUNTS])
        rows = tuple(Row(**row) for row in table.to_pylist())
    except (pa.ArrowException, OSError, TypeError, KeyError, ValueError) as error:
        raise RunFolderError(
            f"{path}: expected rows of an evaluation, got {one_line(error)}; "
            "delete this file, and --resume generates its responses again"
        ) from error
    return Part(rows, counts)


@dataclass(frozen=True)
class Recorded:
    """What the rows of a folder depend on, as `settings.json` holds it.

    `settings` count for every row, `models` and `sets` (by name) for the rows of that model or set.
    """

    settings: Mapping[str, Any]
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class EvaluationFolder:
    """Names the files of one evaluation, which grows: rows are added, none is ever changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings = root / SETTINGS
        self.rows = root / "rows"
        self.result = root / "results.json"

    def started(self) -> bool:
        return self.settings.is_file()

    def recorded(self) -> Recorded | None:
        """What the rows that are there depend on; None in a folder without an evaluation."""
        if not self.started():
            return None
        data = self._read()
        return Recorded(data["settings"], data["models"], data["sets"])

    def asked(self) -> dict[str, dict[str, int]]:
        """How many responses of each model to each set the last command asked for."""
        found: dict[str, dict[str, int]] = self._read()["asked"]
        return found

    def _read(self) -> dict[str, Any]:
        data = read_json(self.settings)
        schema = data.get("schema_version")
        if schema != SCHEMA_VERSION:
            raise RunFolderError(
                f"{self.root}: expected an evaluation of this version (schema_version {SCHEMA_VERSION}), got "
                f"schema_version {schema!r}: its rows cannot be gone on with, take another --output"
            )
        return data

    def begin(self, now: Recorded, *, asked: Mapping[str, Mapping[str, int]], resume: bool) -> Recorded:
        """Makes the folder that of an evaluation, or checks that its rows were made under the same settings.

        Models and sets that are new are added to `settings.json` before any of their rows is there.

        Args:
            asked: how many responses of each model to each set this command asks for.

        Returns:
            All that the rows of the folder depend on, those of other models and sets included.
        """
        then = self.recorded()
        if then is None:
            check_empty(self.root, "evaluation")
            self._write(now, asked)
            return now
        if not resume:
            raise RunFolderError(f"{self.root}: expected an empty folder, got an evaluation: add --resume to resume it")
        check_same(now.settings, then.settings, self.root, kind="evaluation")
        for name in now.sets:
            for other in then.sets:
                if other != name and other.casefold() == name.casefold():
                    raise ConfigError(
                        f"{name}: {self.root} has a set {other}, and names that differ by case alone are one folder on "
                        "some file systems: take another name"
                    )
        for part, mine, theirs in (("models", now.models, then.models), ("sets", now.sets, then.sets)):
            for name in mine:
                if name in theirs:
                    check_same(mine[name], theirs[name], self.root, kind="evaluation", key=f"{part}.{name}.")
        grown = Recorded(
            settings=then.settings,
            models={**then.models, **now.models},
            sets={**then.sets, **now.sets},
        )
        self._write(grown, asked)
        return grown

    def _write(self, recorded: Recorded, asked: Mapping[str, Mapping[str, int]]) -> None:
        write_json(
            self.settings,
            {
                "schema_version": SCHEMA_VERSION,
                "settings": recorded.settings,
                "models": recorded.models,
                "sets": recorded.sets,
                "asked": asked,
            },
        )

    def parts(self, model: str, name: str) -> list[Path]:
        """The parts of a model's rows on a set, by number; what a kill left half written is none of them."""
        return sorted((self.rows / model / name).glob("part-*.parquet"), key=_number_of)

    def responses(self, model: str, name: str) -> int:
        """How many responses of a model to a set are there."""
        return sum(pq.read_metadata(part).num_rows for part in self.parts(model, name))

    def next_part(self, model: str, name: str) -> Path:
        """Where the next part goes: behind the last one."""
        parts = self.parts(model, name)
        number = _number_of(parts[-1]) + 1 if parts else 0
        return self.rows / model / name / f"part-{number:05d}.parquet"

    def write_result(self, settings: Mapping[str, Any], versions: Mapping[str, str], scores: Mapping[str, Any]) -> None:
        schema = {"schema_version": SCHEMA_VERSION}
        write_json(self.result, {**schema, "settings": {**schema, **settings}, "versions": versions, **scores})


def _number_of(part: Path) -> int:
    return int(part.stem.removeprefix("part-"))
