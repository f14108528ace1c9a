"""The rows of an evaluation in parquet files, a part at a time: a part is there as a whole, or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from geoalign.errors import RunFolderError
from geoalign.lab.store.files import write_atomically

_COUNTS = b"geoalign.counts"

SCHEMA = pa.schema(
    [
        ("model", pa.string()),
        ("set", pa.string()),
        ("id", pa.string()),
        ("sample", pa.int32()),
        ("prompt", pa.string()),
        ("response", pa.string()),
        ("answer", pa.string()),
        ("reward", pa.float64()),
        ("correct", pa.bool_()),
        ("tokens", pa.int32()),
        ("prompt_tokens", pa.int32()),
        ("truncated", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Row:
    """One response.

    Attributes:
        prompt: its chat messages as JSON.
        answer: the gold answer; of a dialogue whatever its file has, possibly nothing.
        reward: of the answer's verification or of the reward model; NaN: could not be scored; None: not scored.
        correct: whether the answer is right; None in dialogues.
        tokens: length of the response, with its end.
        truncated: it reached the limit without an end.
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


def whole_text(text: str) -> str:
    """The text with U+FFFD for each half of a pair of surrogates, which neither parquet nor UTF-8 can hold."""
    return text if text.isascii() else "".join("\ufffd" if "\ud800" <= one <= "\udfff" else one for one in text)


def messages_json(prompt: Sequence[Mapping[str, str]]) -> str:
    """Chat messages as a row holds them."""
    return json.dumps([{"role": one["role"], "content": one["content"]} for one in prompt])


def write_part(path: Path, part: Part) -> None:
    """Writes a parquet file, atomically."""
    columns = {name: [getattr(row, name) for row in part.rows] for name in SCHEMA.names}
    table = pa.table(columns, schema=SCHEMA.with_metadata({_COUNTS: json.dumps(dict(part.counts)).encode()}))
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd")
    write_atomically(path, buffer.getvalue().to_pybytes())


def read_part(path: Path, expected: Sequence[tuple[str, str, str, int]]) -> Part:
    """Reads a part back.

    Args:
        expected: (model, set, id, sample) of each of its rows.

    Raises:
        RunFolderError: it is no such file, or holds other rows.
    """
    try:
        # The file itself: of a path pyarrow would read folder names such as "a=b" as columns.
        with path.open("rb") as file:
            table = pq.read_table(file)
        counts = json.loads((table.schema.metadata or {})[_COUNTS])
        rows = tuple(Row(**row) for row in table.to_pylist())
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        raise RunFolderError(f"{path}: expected rows of an evaluation, got {error}") from error
    found = [(row.model, row.set, row.id, row.sample) for row in rows]
    if found != list(expected):
        both = min(len(found), len(expected))
        at = next((row for row in range(both) if found[row] != expected[row]), both)
        raise RunFolderError(
            f"{path}: expected {len(expected)} rows of this evaluation, got {len(found)}, another one in row {at}"
        )
    return Part(rows, {str(name): int(count) for name, count in counts.items()})
