"""The texts of others in messages, on pages and on the terminal: every character visible, of bounded length.

A model's texts and the names in a file are untrusted input: they may try to deceive, to break a page, or to steer a
terminal. Secrets are not looked for here: settings refuse them, and every line of the terminal is masked
(`settings.secrets`).
"""

from __future__ import annotations

import re
import reprlib
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

LONGEST = 200
LONGEST_ERROR = 3000
# A few combining marks on a letter are writing; towers of them overflow every box.
MAX_MARKS = 3
# Stands where there is no number; a terminal that lacks it shows a hyphen.
DASH = "–"
# What the font of the figures lacks.
_NO_GLYPH = re.compile("[^ -~\u00a1-\u024f…⟨⟩]")

_REPR = reprlib.Repr()
_REPR.maxlevel = 4
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxset = 20
_REPR.maxother = _REPR.maxlong = _REPR.maxstring = LONGEST


def quote(value: Any, most: int = LONGEST) -> str:
    """`repr(value)`, cut to `most` characters; deep and long values, and large whole numbers, are never written out."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a whole number of {value.bit_length():,} bits"
    try:
        return escape(repr(value) if isinstance(value, str) else _REPR.repr(value), most)
    except (ValueError, RecursionError):  # holds such a number, or itself
        return f"a {type(value).__name__} too large to show"


def escape(key: str, most: int = LONGEST) -> str:
    """A dotted key or a path as it is, with escapes for what cannot be printed, cut to `most` characters."""
    left_out = len(key) - most
    line = key[:most] if key.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in key[:most])
    return line if left_out <= 0 else f"{line}... ({left_out:,} more characters)"


def one_line(text: object, most: int = 300) -> str:
    """A text (of another library's error, say) likewise, with a space for every line end and run of spaces; what it
    loses is counted, and of its middle: a beginning says where, an end often why."""
    line = " ".join(str(text).split())
    left_out, half = len(line) - most, most // 2
    cut = f"{line[:half]} ... [{left_out:,} characters left out] ... {line[-half:]}" if left_out > 0 else line
    return escape(cut, len(cut))


def listed(names: Iterable[object], most: int = 300) -> str:
    """Names joined by commas in about `most` characters, with how many more there are."""
    parts: list[str] = []
    every, length = list(names), 0
    for name in every:
        parts.append(one_line(name, 80))
        length += len(parts[-1]) + 2
        if len(parts) > 1 and length > most:
            return f"{', '.join(parts[:-1])} and {len(every) - len(parts) + 1} more"
    return ", ".join(parts)


def enumerated(names: Sequence[str]) -> str:
    """Names in a sentence: "a", "a and b", "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def seed_ranges(seeds: Iterable[int]) -> str:
    """Seeds as a short list: 0, 1, 2, 5 are "0-2, 5"."""
    ranges: list[list[int]] = []
    for seed in sorted(seeds):
        if ranges and seed == ranges[-1][-1] + 1:
            ranges[-1].append(seed)
        else:
            ranges.append([seed])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ranges)


def invisible(character: str) -> bool:
    """Whether a character shows nothing of itself, or acts on what stands around it: control, format, private and
    unassigned ones, surrogates, separators of lines; not spaces of any width."""
    return not character.isprintable() and unicodedata.category(character) != "Zs"


def visible(text: str, limit: int = 600) -> str:
    """A text for a page: what is invisible becomes its code point, ⟨U+202E⟩, but for line feeds and tabs; towers of
    combining marks are cut, as is the text to `limit` characters. Markup stays: the template escapes it."""
    pieces, marks = [], 0
    for character in text[:limit]:
        marks = marks + 1 if unicodedata.category(character).startswith("M") else 0
        if marks <= MAX_MARKS:
            hidden = invisible(character) and character not in "\n\t"
            pieces.append(f"⟨U+{ord(character):04X}⟩" if hidden else character)
    left_out = len(text) - limit
    return "".join(pieces) + (f" … [{left_out:,} more characters]" if left_out > 0 else "")


def label(text: str, limit: int = 40) -> str:
    """A short text for a figure: one line, only characters that the figures' font has, no mathematics mode; a legend
    shows it, whatever it begins with."""
    plain = _NO_GLYPH.sub("?", visible(text, limit))
    named = f" {plain}" if plain.startswith("_") else plain or "(no name)"
    return named.replace("\\", "/").replace("$", r"\$")


def escape_terminal(text: object, encoding: str = "utf-8", limit: int | None = LONGEST) -> str:
    """A text for a terminal, on one line: what is invisible, or not in the terminal's encoding, becomes its code
    point, <U+001B>; cut to `limit` characters (None: not at all)."""
    written = str(text)
    cut = written if limit is None or len(written) <= limit else written[:limit] + "..."
    return cut.translate(escapes(encoding, ""))


def shows(character: str, encoding: str) -> bool:
    """Whether a character shows as itself, and does nothing else, on a terminal of this encoding."""
    if invisible(character):
        return False
    try:
        character.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return character.isascii()
    return True


class Escapes(dict[int, str]):
    """A table for `str.translate` that grows with the characters it meets; those in `kept` stay."""

    def __init__(self, encoding: str, kept: str) -> None:
        self._encoding, self._kept = encoding, kept

    def __missing__(self, code: int) -> str:
        character = chr(code)
        stays = character in self._kept or shows(character, self._encoding)
        self[code] = character if stays else "-" if character == DASH else f"<U+{code:04X}>"
        return self[code]


@lru_cache
def escapes(encoding: str, kept: str) -> Escapes:
    return Escapes(encoding, kept)
