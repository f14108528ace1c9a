"""One value of a row, checked: numbers, truth values, texts and chat messages."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from geoalign.rewards.base import response_text

Messages = tuple[dict[str, str], ...]


class BadValueError(Exception):
    """A value is not what its field should hold: what was expected, what came."""

    def __init__(self, field: str, expected: str, got: str) -> None:
        super().__init__(f"{field}: expected {expected}, got {got}")
        self.field, self.expected, self.got = field, expected, got


def number(field: str, value: Any) -> float:
    """A finite number, true or false as 1 or 0; NaN and null are NaN: what could not be scored.

    Raises:
        BadValueError: a text, a list, an infinity, or anything else.
    """
    if value is None:
        return math.nan
    if not isinstance(value, (bool, int, float)):
        raise BadValueError(field, "a number", described(value))
    try:
        found = float(value)
    except OverflowError as error:
        raise BadValueError(field, "a finite number", "a whole number beyond 1e308") from error
    if math.isinf(found):
        raise BadValueError(field, "a finite number, or null where it could not be scored", str(found))
    return found


def whole_number(field: str, value: Any) -> int | None:
    """A whole number, or None for null; 3.0 is one.

    Raises:
        BadValueError: anything else, or one beyond 64 bits.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if not whole or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise BadValueError(field, "a whole number", described(value))
    return int(value)


def truth(field: str, value: Any) -> bool | None:
    """True, false, 1, 0, or None for null and NaN.

    Raises:
        BadValueError: anything else.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return bool(value)
    raise BadValueError(field, "true or false", described(value))


def prompt(field: str, value: Any) -> tuple[str, Messages | None]:
    """A prompt as a text, and its chat messages where it is a conversation.

    Raises:
        BadValueError: neither a text nor a list of chat messages.
    """
    if isinstance(value, str):
        return value, None
    if not isinstance(value, list) or not value:
        raise BadValueError(field, "a text or a list of chat messages", described(value))
    messages = tuple(_message(f"{field}.{place}", message) for place, message in enumerate(value))
    if len(messages) == 1:
        return messages[0]["content"], messages
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in messages), messages


def response(field: str, value: Any) -> str:
    """The text of a response: a text, or the assistant's chat messages joined.

    Raises:
        BadValueError: neither.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(message, Mapping) for message in value):
        messages = [_message(f"{field}.{place}", message) for place, message in enumerate(value)]
        return response_text(messages)
    raise BadValueError(field, "a text or a list of chat messages", described(value))


def short_text(field: str, value: Any) -> str | None:
    """A text, a number or a truth value as text; what is nested as JSON; None for null."""
    if value is None or isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        raise BadValueError(field, "a text or a number", described(value)) from None


def described(value: Any) -> str:
    """What came, in a few characters: the kind, and a number or a truth value itself."""
    if isinstance(value, (bool, int, float)):
        return repr(value)[:40]
    names = {str: "a text", list: "a list", dict: "an object", type(None): "null", bytes: "bytes"}
    return names.get(type(value), type(value).__name__)


def _message(field: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not isinstance(value.get("role"), str):
        raise BadValueError(field, "a chat message of role and content", described(value))
    content = value.get("content")
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else None for part in content]
        texts = [part for part in parts if isinstance(part, str)]
        content = "".join(texts) if len(texts) == len(parts) else parts
    if content is None:
        content = ""  # a message that only calls a tool
    if not isinstance(content, str):
        raise BadValueError(f"{field}.content", "a text", described(value.get("content")))
    return {"role": value["role"], "content": content}
