"""Values and texts of others in messages: one line, every character visible, of bounded length.

Secrets are not looked for here: settings refuse them, and every line of the terminal is masked (`settings.secrets`).
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from typing import Any

LONGEST = 200

_REPR = reprlib.Repr()
_REPR.maxlevel = 4
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxset = 20
_REPR.maxother = _REPR.maxlong = _REPR.maxstring = LONGEST


def shown(value: Any, most: int = LONGEST) -> str:
    """`repr(value)`, cut to `most` characters; deep and long values, and large whole numbers, are never written out."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a whole number of {value.bit_length():,} bits"
    try:
        return shown_key(repr(value) if isinstance(value, str) else _REPR.repr(value), most)
    except (ValueError, RecursionError):  # holds such a number, or itself
        return f"a {type(value).__name__} too large to show"


def shown_key(key: str, most: int = LONGEST) -> str:
    """A dotted key or a path as it is, with escapes for what cannot be printed, cut to `most` characters."""
    left_out = len(key) - most
    line = key[:most] if key.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in key[:most])
    return line if left_out <= 0 else f"{line}... ({left_out:,} more characters)"


def brief(text: object, most: int = 300) -> str:
    """A text (of another library's error, say) likewise, with a space for every line end and run of spaces."""
    return shown_key(" ".join(str(text).split()), most)


def listed(names: Iterable[object], most: int = 300) -> str:
    """Names joined by commas in about `most` characters, with how many more there are."""
    parts: list[str] = []
    length = 0
    every = list(names)
    for name in every:
        parts.append(brief(name, 80))
        length += len(parts[-1]) + 2
        if len(parts) > 1 and length > most:
            return f"{', '.join(parts[:-1])} and {len(every) - len(parts) + 1} more"
    return ", ".join(parts)
