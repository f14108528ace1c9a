"""JSON of other people's, read strictly: what Python's reader would pass over in silence is an error."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

from geoalign.shown import shown

# Levels of lists and objects; real rows have a handful, and Python's stack ends at some hundreds.
DEEPEST = 100
_BLANKS = re.compile(r"[ \t\n\r]*")


class StrictJsonError(ValueError):
    """JSON that could be read only by losing some of it; the message says what came."""


class StrictJson:
    """A reader of JSON that notices what Python's drops or changes.

    That is: a key that is twice in one object (the last would win), and nesting deeper than `DEEPEST`. NaN,
    Infinity and numbers beyond float64's range are read as Python reads them.

    Args:
        as_text: keep numbers as the text in the file.
    """

    def __init__(self, *, as_text: bool = False) -> None:
        kinds: dict[str, Any] = {"parse_int": str, "parse_float": str} if as_text else {}
        self._json = json.JSONDecoder(object_pairs_hook=self._object, **kinds)
        self._problem: str | None = None

    def value(self, text: str) -> Any:
        """The one value that a text holds.

        Raises:
            ValueError: it is no JSON (`json.JSONDecodeError`), or JSON that would lose something (`StrictJsonError`).
            RecursionError: it is nested deeper than Python can read.
        """
        value, end, problem = self.next(text, behind_blanks(text, 0))
        end = behind_blanks(text, end)
        if end != len(text):
            raise json.JSONDecodeError("Extra data", text, end)
        if problem is not None:
            raise StrictJsonError(problem)
        return value

    def next(self, text: str, at: int) -> tuple[Any, int, str | None]:
        """The value that begins at index `at`, where it ends, and what would be lost of it: None, or the error's text.

        Raises:
            ValueError, RecursionError: as `value`, but for what would be lost: the text behind it can still be read.
        """
        self._problem = None
        value, end = self._json.raw_decode(text, at)
        if self._problem is None and _brackets(text, at, end) > DEEPEST and _deeper(value):
            self._problem = f"values nested more than {DEEPEST} levels deep"
        return value, end, self._problem

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
            self._problem = f"the key {shown(twice)} twice in one object"
        return value


def strict_json(data: str | bytes) -> Any:
    """The value of a JSON text, in UTF-8 where it comes as bytes (a byte order mark is passed over).

    Raises:
        ValueError: as `StrictJson.value`; nesting that Python cannot read is one (`StrictJsonError`), too.
    """
    try:
        return StrictJson().value(data.decode("utf-8-sig") if isinstance(data, bytes) else data)
    except RecursionError as error:
        raise StrictJsonError(f"values nested more than {DEEPEST} levels deep") from error


def behind_blanks(text: str, at: int) -> int:
    """The first index from `at` on that is no blank of JSON's."""
    match = _BLANKS.match(text, at)
    return match.end() if match is not None else at


def _brackets(text: str, at: int, end: int) -> int:
    return text.count("[", at, end) + text.count("{", at, end)


def _deeper(value: Any) -> bool:
    """Whether a value is nested deeper than `DEEPEST`, without recursion."""
    level = [value] if isinstance(value, (list, dict)) else []
    for _ in range(DEEPEST):
        level = [
            item
            for outer in level
            for item in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(item, (list, dict))
        ]
        if not level:
            return False
    return True
