"""How numbers are written, on pages and on the terminal, and how the texts of others are made harmless on both.

A model's texts and the names in a file are untrusted input: they may try to deceive, to break a page, or to steer a
terminal. One rule says what is `invisible`; both write such a character as its code point.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache, wraps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from geoalign.lab.analysis.statistics import Interval

# Stands where there is no number; a terminal that lacks it shows a hyphen.
DASH = "–"
# A longer error is cut in its middle: its beginning says where, its end often why.
LONGEST_ERROR = 3000
LONGEST_TEXT = 600
# A few combining marks on a letter are writing; towers of them overflow every box.
MAX_MARKS = 3
_LONGEST_NAME = 200
# What the font of the figures lacks.
_NO_GLYPH = re.compile("[^ -~\u00a1-\u024f…⟨⟩]")
# Beyond it a number in full is no longer read but counted.
_LARGEST_IN_FULL = 1e12


def _or_dash(write: Callable[..., str]) -> Callable[..., str]:
    """The same function, which writes a dash where there is no number."""

    @wraps(write)
    def written(value: float | None, *args: int, **options: int) -> str:
        return DASH if value is None or math.isnan(value) else write(value, *args, **options)

    return written


@_or_dash
def number(value: float, digits: int = 3) -> str:
    """A whole number in full, another with `digits` decimals."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.{digits}f}"


@_or_dash
def short(value: float) -> str:
    """A number with three significant digits; from 1,000 on in full."""
    return whole(value) if abs(value) >= 1000 else f"{value:.3g}"


@_or_dash
def signed(value: float) -> str:
    """A difference with its sign and three significant digits."""
    return "0" if value == 0 else f"{value:+.3g}"


@_or_dash
def whole(value: float) -> str:
    return f"{value:,.0f}" if abs(value) < _LARGEST_IN_FULL else f"{value:.3g}"


@_or_dash
def decimals(value: float, digits: int = 2) -> str:
    """A number with as many decimals, so that a column of them lines up."""
    return f"{value:,.{digits}f}"


@_or_dash
def percent(value: float) -> str:
    """A share as a percentage with one decimal."""
    return f"{value:.1%}" if abs(value) < 100 else short(value)


@_or_dash
def points(value: float) -> str:
    return f"{100 * value:+.1f} points"


@_or_dash
def probability(p: float) -> str:
    """A p-value with two significant digits."""
    return "under 0.0001" if p < 0.0001 else f"{p:.2g}"


@_or_dash
def megabytes(value: float) -> str:
    """Bytes as a signed number of mebibytes."""
    return f"{value / 2**20:+,.0f} MiB"


def duration(seconds: float) -> str:
    """A length of time: 0.25 s, 12 s, 3 min, 2:05:00 h."""
    if seconds < 10:
        return f"{max(0.0, seconds):.2g} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    # More than a few years is no estimate but a broken number.
    return f"{timedelta(seconds=round(seconds))} h" if seconds < 1e9 else "years"


def ends(value: Interval | None, write: Callable[[float], str] = short) -> str:
    """The two ends of an interval, each as `write` writes a number."""
    if value is None or math.isnan(value.low) or math.isnan(value.high):
        return DASH
    return f"{write(value.low)} to {write(value.high)}"


def estimate(value: Interval, write: Callable[[float], str] = short) -> str:
    """An estimate with its interval in brackets, where there is one."""
    written = write(value.estimate)
    return written if math.isnan(value.estimate) or math.isnan(value.low) else f"{written} ({ends(value, write)})"


def invisible(character: str) -> bool:
    """Whether a character shows nothing of itself, or acts on what stands around it: control, format, private and
    unassigned ones, surrogates, separators of lines; not spaces of any width."""
    return not character.isprintable() and unicodedata.category(character) != "Zs"


def inert(text: str, limit: int = LONGEST_TEXT) -> str:
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
    plain = _NO_GLYPH.sub("?", inert(text, limit))
    named = f" {plain}" if plain.startswith("_") else plain or "(no name)"
    return named.replace("\\", "/").replace("$", r"\$")


def harmless(text: object, encoding: str = "utf-8", limit: int | None = _LONGEST_NAME) -> str:
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


def one_line(text: object, limit: int = LONGEST_ERROR) -> str:
    """A text as one line of at most about `limit` characters; what is left out of its middle is counted."""
    line = re.sub(r"\s*[\r\n]\s*", " ", str(text).strip())
    left_out = len(line) - limit
    if left_out <= 0:
        return line
    half = limit // 2
    return f"{line[:half]} ... [{left_out:,} characters left out] ... {line[-half:]}"


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
