"""The rows of evaluations, one a response: `geoalign evaluate` and the evaluations of a training write the same."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow

from geoalign.files.columns import write_table

SCHEMA = pyarrow.schema(
    {
        "model": pyarrow.string(),
        "set": pyarrow.string(),
        "id": pyarrow.string(),
        "sample": pyarrow.int32(),
        "prompt": pyarrow.string(),
        "response": pyarrow.string(),
        "answer": pyarrow.string(),
        "reward": pyarrow.float64(),
        "correct": pyarrow.bool_(),
        "reason": pyarrow.string(),
        "tokens": pyarrow.int32(),
        "prompt_tokens": pyarrow.int32(),
        "truncated": pyarrow.bool_(),
    }
)


@dataclass(frozen=True)
class ResponseRow:
    """One response, known by its model, set, problem (`id`) and number (`sample`).

    Attributes:
        prompt: the chat messages as JSON.
        answer: the gold answer; of a dialogue whatever its file has.
        reward: NaN where the response could not be scored, None where nothing scores it.
        correct: whether the reward says that it is right; None in dialogues.
        reason: why it was not scored or not read, such as "no_answer" or "timeouts"; None where it was.
        tokens: the length of the response, its end included.
        truncated: whether it reached the longest length.
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
    reason: str | None
    tokens: int
    prompt_tokens: int
    truncated: bool


def messages_json(prompt: Sequence[Mapping[str, str]]) -> str:
    """Chat messages as a row holds them."""
    return json.dumps([{"role": message["role"], "content": message["content"]} for message in prompt])


def write_rows(path: Path, rows: Sequence[ResponseRow]) -> None:
    """Writes a parquet file of rows; it is whole or absent."""
    write_table(path, pyarrow.Table.from_pylist([asdict(row) for row in rows], schema=SCHEMA))
