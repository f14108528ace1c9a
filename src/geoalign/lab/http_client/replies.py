"""Reading what a server sent: strict JSON, and the message of an error."""

from __future__ import annotations

import json
from typing import Any


def read_json(data: bytes) -> Any:
    """The value of a JSON text; a name that occurs twice in one object is refused, because either value may be meant.

    Raises:
        ValueError: it is no JSON, or nested too deeply to be read.
    """
    try:
        return json.loads(data, object_pairs_hook=_unique)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def message_of(data: bytes) -> str:
    """The message in an error's body, as FastAPI (`detail`), OpenAI and vLLM (`error.message`) put it; or the body."""
    try:
        body = read_json(data)
    except ValueError:
        body = None
    message = body.get("detail") or body.get("error") or body.get("message") if isinstance(body, dict) else None
    if isinstance(message, dict):
        message = message.get("message")
    return message if isinstance(message, str) else data.decode("utf-8", errors="replace")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a name that occurs twice in an object")
    return fields
