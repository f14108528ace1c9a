"""One value of a row, checked: numbers, truth values, texts and chat messages; BadValueError for what it should not be.

Texts come without halves of surrogate pairs, which neither parquet nor UTF-8 can hold.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from geoalign.answers.messages import Messages, response_text
from geoalign.dumps.raw_rows import CsvCell
from geoalign.files.columns import whole_text
from geoalign.text import quote

# The largest number of float32, in which trainers hold rewards.
LARGEST = (2 - 2**-23) * 2.0**127
# A number in a cell of CSV, and the words for a missing one (in lower case).
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.ASCII)
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_MISSING = ("", "nan", "null", "none", "na", "n/a")
_YES_OR_NO = {"yes": True, "no": False}
# What engines and Python write where no answer was found in a response; verl's DAPO reward writes "[INVALID]".
_NO_ANSWER = ("", "[INVALID]", "None", "null", "nan", "NaN")
# What values are called, and several of them in a list.
_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "number",
    float: "number",
    str: "text",
    CsvCell: "text",
    dict: "object",
    type(None): "null",
}
_PLURALS = {
    "true or false": "numbers",
    "number": "numbers",
    "text": "texts",
    "object": "objects",
    "messages": "messages",
}
# Who speaks in ShareGPT's messages of `from` and `value`, as the role that others call it; other names are roles.
_ROLES_OF_SENDERS = {"human": "user", "gpt": "assistant"}
# Parts of a chat message that are no texts; a text stands for them.
_MEDIA = ("image", "image_url", "input_image", "video", "video_url", "audio", "input_audio")


class BadValueError(Exception):
    """A value is not what its field should hold, or (field None) a row no row: what was expected, what came."""

    def __init__(self, field: str | None, expected: str, got: str | None = None) -> None:
        self.field = field
        self.reason = expected if got is None else f"expected {expected}, got {got}"
        super().__init__(self.reason if field is None else f"{field}: {self.reason}")


def typed(value: Any) -> Any:
    """A cell of CSV as the number or truth value that it says, None where it is empty or says that nothing is there;
    other cells, and other values, as they are."""
    if not isinstance(value, CsvCell):
        return value
    text = value.strip().lower()
    if text in _MISSING:
        return None
    if text in ("true", "false"):
        return text == "true"
    if _WHOLE.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) or text.lstrip("+-") in ("inf", "infinity"):
        return float(text)
    return value


def _known(value: Any) -> Any:
    """A value as `typed` gives it, NaN as None."""
    value = typed(value)
    return None if isinstance(value, float) and math.isnan(value) else value


def as_said(value: Any) -> Any:
    """A text as the number or truth value that it says, as `typed` reads a cell of CSV, and yes and no as truth values;
    NaN as None, other values as they are."""
    if not isinstance(value, str):
        return _known(value)
    return _YES_OR_NO.get(value.strip().lower(), _known(CsvCell(value)))


def number(field: str, value: Any) -> float:
    """A finite number; NaN and null are NaN: what could not be scored.

    Trainers hold rewards in float32, where numbers beyond 3.4e38 are infinite.
    """
    value = _known(value)
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadValueError(field, "a number", described(value))
    if abs(value) > LARGEST:
        raise BadValueError(field, "a finite number of at most 3.4e38, or null: not scored", described(value))
    return float(value)


def number_or_truth(field: str, value: Any) -> float:
    """A number, or a truth value as 1 or 0: what a field of verdicts gives as rewards."""
    value = typed(value)
    return float(value) if isinstance(value, bool) else number(field, value)


def whole_number(field: str, value: Any) -> int | None:
    """A whole number, or None for null; 3.0 is one."""
    value = _known(value)
    if value is None:
        return None
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) < 2**53)
    if not whole or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise BadValueError(field, "a whole number of 64 bits", described(value))
    return int(value)


def number_as_said(field: str, value: Any) -> float:
    """A number, or a truth value as 1 or 0, also as a text; NaN for null."""
    return number_or_truth(field, as_said(value))


def count(field: str, value: Any) -> int | None:
    """How many tokens: a whole number from 0 to 2^53, also as a text, or the length of a list of tokens; None for
    null."""
    value = _list_in_cell(value, "[", _are_tokens)
    if _are_tokens(value):
        return len(value)
    said = as_said(value)
    expected = "a number of tokens, or a list of them"
    try:
        tokens = whole_number(field, said)
    except BadValueError:
        raise BadValueError(field, expected, described(said)) from None
    if tokens is not None and not 0 <= tokens <= 2**53:
        raise BadValueError(field, expected, described(said))
    return tokens


def _are_tokens(value: Any) -> bool:
    """Whether a value is a list of tokens, each its number or its text."""
    return isinstance(value, list) and all(
        isinstance(entry, (int, str)) and not isinstance(entry, bool) for entry in value
    )


def truth(field: str, value: Any) -> bool | None:
    """A truth value, or 0, 1, yes or no as one, also as a text; None for null and NaN."""
    said = as_said(value)
    if said is None:
        return None
    if isinstance(said, (bool, int, float)) and said in (0, 1):
        return bool(said)
    raise BadValueError(field, "true or false", described(said))


def prompt(field: str, value: Any) -> tuple[str, Messages | None]:
    """A prompt as a text, and its chat messages where it is a conversation."""
    value = _list_in_cell(value, "[{", is_conversation)
    if isinstance(value, str):
        return whole_text(value), None
    if not isinstance(value, list) or not value:
        raise BadValueError(field, "a text or a list of chat messages", described(value))
    messages = tuple(_message(f"{field}.{number}", message) for number, message in enumerate(value))
    if len(messages) == 1:
        return messages[0]["content"], messages
    return "\n\n".join(f"{message['role']}: {message['content']}" for message in messages), messages


def response(field: str, value: Any) -> str:
    """The text of a response: a text, or the assistant's chat messages joined; "" of a conversation without any."""
    value = _list_in_cell(value, "[{", is_conversation)
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list) and all(isinstance(message, Mapping) for message in value):
        messages = [_message(f"{field}.{number}", message) for number, message in enumerate(value)]
        return response_text(messages) if messages else ""
    raise BadValueError(field, "a text or a list of chat messages", described(value))


def is_conversation(value: Any) -> bool:
    """Whether a value is a list of chat messages: one text, said in turns, not a list of several."""
    return isinstance(value, list) and bool(value) and all(role_of(message) is not None for message in value)


def role_of(message: Any) -> str | None:
    """The role of a chat message, of one of ShareGPT by who it is from; None where a value is no chat message."""
    if not isinstance(message, Mapping):
        return None
    role = message.get("role")
    if isinstance(role, str):
        return role
    sender = message.get("from")
    if not isinstance(sender, str) or "value" not in message:
        return None
    return _ROLES_OF_SENDERS.get(sender, sender)


def name_of_content(message: Mapping[str, Any]) -> str:
    """The field of a chat message that holds what is said."""
    return "content" if isinstance(message.get("role"), str) else "value"


def _list_in_cell(value: Any, beginning: str | tuple[str, ...], accepts: Callable[[Any], bool]) -> Any:
    """The list that a cell of CSV holds as JSON, or as pandas writes a list; other values as they are.

    Args:
        beginning: how the text of such a list begins, or several such texts.
        accepts: whether a list is one that is looked for.
    """
    if not isinstance(value, CsvCell) or not value.startswith(beginning):
        return value
    return next(filter(accepts, _parsed(value)), value)


def _parsed(cell: str) -> Iterator[Any]:
    """What a cell says as JSON and as Python, as far as it is either."""
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            yield parse(cell)


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


def final_answer(field: str, value: Any) -> str | None:
    """The final answer of a response as text, one that stands in a list alone too; None where there is none."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, (list, dict)) and not value:
        return None
    text = short_text(field, value)
    return None if text is None or text.strip() in _NO_ANSWER else text


def gold_answers(field: str, value: Any) -> tuple[str, ...]:
    """The gold answers of a problem as texts: the value itself, or of a list of several texts, each of which is right,
    all that differ; none where there is none.

    A list of something else is one answer, which `short_text` writes out. In a list alone an answer is itself.
    """
    value = _list_in_cell(value, ('["', "['"), lambda parsed: isinstance(parsed, list))
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    several = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
    texts = [short_text(field, entry) for entry in (value if several else [value])]
    return tuple(dict.fromkeys(text for text in texts if text))


def kind_of(value: Any) -> str:
    """What a value is, in words: "text", "messages", "list of numbers"; a cell of CSV by what it says."""
    value = typed(value)
    if not isinstance(value, list):
        return _KINDS.get(type(value), type(value).__name__)
    if not value:
        return "empty list"
    if is_conversation(value):
        return "messages"
    given = [entry for entry in value if entry is not None]
    kinds = {"messages" if is_conversation(entry) else _KINDS.get(type(entry), "") for entry in given}
    plural = _PLURALS.get(kinds.pop()) if len(kinds) == 1 else None
    return f"list of {plural}" if plural else "list"


def described(value: Any) -> str:
    """What came, in a few characters: the kind, and a number, a truth value or a cell of CSV itself."""
    if isinstance(value, (bool, int, float, CsvCell)):
        return quote(str(value) if isinstance(value, CsvCell) else value, 40)
    kind = kind_of(value)
    if kind == "messages" or not isinstance(value, (str, list, dict)):
        return kind
    return f"an {kind}" if kind.startswith(("object", "empty")) else f"a {kind}"


def _message(field: str, value: Any) -> dict[str, str]:
    """A chat message with its content as one text; what calls a tool alone has no text."""
    role = role_of(value)
    if role is None:
        raise BadValueError(field, "a chat message of role and content", described(value))
    name = name_of_content(value)
    content = value.get(name)
    if content is None:
        content = ""
    if isinstance(content, list):
        parts = [_text_of_part(part) for part in content]
        texts = [part for part in parts if part is not None]
        content = "".join(texts) if len(texts) == len(parts) else None
    if not isinstance(content, str):
        raise BadValueError(f"{field}.{name}", "a text", described(value.get(name)))
    return {"role": whole_text(role), "content": whole_text(content)}


def _text_of_part(part: Any) -> str | None:
    """The text of a part of a message, `<image>` for an image (likewise video, audio); None where it is neither."""
    if not isinstance(part, Mapping):
        return None
    kind = part.get("type")
    if isinstance(kind, str) and kind in _MEDIA:
        medium = kind.removeprefix("input_").removesuffix("_url")
        return f"<{medium}>"
    text = part.get("text")
    return text if isinstance(text, str) else None


def field_of(row: Mapping[str, Any], name: str) -> Any:
    """The value of a dotted field name (`prompt.0.content`), a key that holds the dots itself first; None where there
    is none.
    """
    if name in row:
        return row[name]
    value: Any = row
    for part in name.split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, Sequence) and not isinstance(value, str) and part.isdecimal() and len(part) < 19:
            # No list has so many entries that their numbers have 19 digits.
            place = int(part)
            value = value[place] if place < len(value) else None
        else:
            return None
    return value
