"""One value of a row, checked: numbers, truth values, texts and chat messages; BadValueError for what it should not be.

Texts come without halves of surrogate pairs, which neither parquet nor UTF-8 can hold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from geoalign.lab.rewards.base import response_text
from geoalign.lab.store.columns import whole_text
from geoalign.lab.tasks.base import Messages
from geoalign.text import quote

# The largest number of float32, in which trainers hold rewards.
LARGEST = (2 - 2**-23) * 2.0**127


class BadValueError(Exception):
    """A value is not what its field should hold, or (field None) a row no row: what was expected, what came."""

    def __init__(self, field: str | None, expected: str, got: str | None = None) -> None:
        self.field, self.reason = field, expected if got is None else f"expected {expected}, got {got}"
        super().__init__(self.reason if field is None else f"{field}: {self.reason}")


def number(field: str, value: Any) -> float:
    """A finite number; NaN and null are NaN: what could not be scored.

    Trainers hold rewards in float32, where numbers beyond 3.4e38 are infinite.
    """
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadValueError(field, "a number", described(value))
    if abs(value) > LARGEST:
        raise BadValueError(field, "a finite number of at most 3.4e38, or null: not scored", described(value))
    return float(value)


def number_or_truth(field: str, value: Any) -> float:
    """A number, or a truth value as 1 or 0: what a field of verdicts gives as rewards."""
    return float(value) if isinstance(value, bool) else number(field, value)


def whole_number(field: str, value: Any) -> int | None:
    """A whole number, or None for null; 3.0 is one."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 2**53)
    if not whole or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise BadValueError(field, "a whole number of 64 bits", described(value))
    return int(value)


def count(field: str, value: Any) -> int | None:
    """A whole number from 0 to 2^53, or None for null."""
    tokens = whole_number(field, value)
    if tokens is not None and not 0 <= tokens <= 2**53:
        raise BadValueError(field, "a number of tokens", described(value))
    return tokens


def truth(field: str, value: Any) -> bool | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return bool(value)
    raise BadValueError(field, "true or false", described(value))


def prompt(field: str, value: Any) -> tuple[str, Messages | None]:
    """A prompt as a text, and its chat messages where it is a conversation."""
    if isinstance(value, str):
        return whole_text(value), None
    if not isinstance(value, list) or not value:
        raise BadValueError(field, "a text or a list of chat messages", described(value))
    messages = tuple(_message(f"{field}.{number}", message) for number, message in enumerate(value))
    if len(messages) == 1:
        return messages[0]["content"], messages
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in messages), messages


def response(field: str, value: Any) -> str:
    """The text of a response: a text, or the assistant's chat messages joined."""
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list) and value and all(isinstance(message, Mapping) for message in value):
        messages = [_message(f"{field}.{number}", message) for number, message in enumerate(value)]
        return response_text(messages)
    raise BadValueError(field, "a text or a list of chat messages", described(value))


def short_text(field: str, value: Any) -> str | None:
    """A text, a number or a truth value as text; what is nested as JSON; None for null."""
    if value is None:
        return None
    if isinstance(value, str):
        return whole_text(value)
    try:
        return whole_text(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        raise BadValueError(field, "a text or a number", described(value)) from None


def described(value: Any) -> str:
    """What came, in a few characters: the kind, and a number or a truth value itself."""
    if isinstance(value, (bool, int, float)):
        return quote(value, 40)
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
    return {"role": whole_text(value["role"]), "content": whole_text(content)}
