"""Values and keys of settings as error messages show them: of bounded length, without control characters."""

from __future__ import annotations

from typing import Any

LONGEST = 200


def shown(value: Any) -> str:
    """`repr` of a value, cut to `LONGEST` characters; a whole number of too many digits is told by its size."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a whole number of {value.bit_length():,} bits"
    try:
        return _cut(repr(value))
    except (ValueError, RecursionError):  # holds such a number, or itself
        return f"a {type(value).__name__} too large to show"


def shown_key(key: str) -> str:
    """A dotted key as it is; with what cannot be printed escaped, and cut."""
    return _cut(key if key.isprintable() else repr(key)[1:-1])


def shown_text(text: object) -> str:
    """A message of other software in one line, with what cannot be printed escaped, and cut."""
    line = " ".join(str(text).split())
    return _cut(line if line.isprintable() else repr(line)[1:-1], 3 * LONGEST)


def _cut(text: str, longest: int = LONGEST) -> str:
    left_out = len(text) - longest
    return text if left_out <= 0 else f"{text[:longest]}... ({left_out:,} more characters)"
