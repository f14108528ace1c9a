"""Reading what a server sent: strict JSON, and foreign text made fit for an error message."""

from __future__ import annotations

import json
import reprlib
from typing import Any

_QUOTED = 500

# Bounded in depth and length, whatever a server made of its JSON.
_shortened = reprlib.Repr()
_shortened.maxstring = _shortened.maxother = 200


def read_json(data: bytes) -> Any:
    """The value of a JSON text; a name that occurs twice in one object is refused, because either value may be meant.

    Raises:
        ValueError: it is no JSON, or nested too deeply to be read.
    """
    try:
        return json.loads(data, object_pairs_hook=_unique)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def shown(value: Any) -> str:
    """A parsed value for an error message: the beginning of its `repr`."""
    return _shortened.repr(value)


def quoted(text: str) -> str:
    """The beginning of a foreign text on one line, without what a terminal would act on."""
    line = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * _QUOTED])
    line = " ".join(line.split())
    return line[:_QUOTED] + ("..." if len(line) > _QUOTED else "")


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
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name that occurs twice in an object")
    return found
