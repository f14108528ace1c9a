"""Other people's values in messages: in one line, visible, and cut."""

from __future__ import annotations

import reprlib
from typing import Any

_REPR = reprlib.Repr()
_REPR.maxlevel = 3
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80


def shown(value: Any, most: int = 80) -> str:
    """`repr(value)` in at most `most` characters, and no more work than that: nested and long values are cut first."""
    try:
        text = _REPR.repr(value)
    except (ValueError, RecursionError):  # whole numbers of more digits than Python writes
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= most else text[: most - 3] + "..."


def brief(text: object, most: int = 300) -> str:
    """A text (of another library's error, say) as one line of at most `most` characters, none of them invisible."""
    given = str(text)[: 4 * most]
    line = "".join(one if one.isprintable() else "\ufffd" for one in " ".join(given.split()))
    return line if len(line) <= most else line[: most - 3] + "..."


def listed(names: Any, most: int = 300) -> str:
    """Names joined by commas in at most `most` characters, with how many more there are."""
    parts: list[str] = []
    length = 0
    every = list(names)
    for name in every:
        part = brief(name, 80)
        length += len(part) + 2
        if parts and length > most:
            return f"{', '.join(parts)} and {len(every) - len(parts)} more"
        parts.append(part)
    return ", ".join(parts)
