"""The texts of others in messages, on pages and on the terminal: every character visible, of bounded length.

A model's texts and the names in a file are untrusted input: they may try to deceive, to break a page, or to steer a
terminal. They are made harmless where they are shown: on the terminal by `printable`, which the console applies to all
that is printed, and on pages by `visible` and the escaping of the templates. Elsewhere they stay as they are; `quote`,
`one_line` and `listed` bound their length in messages.
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
# Stands where there is no number; a terminal that lacks it shows a hyphen.
DASH = "–"
# What the font of the figures lacks.
_NO_GLYPH = re.compile("[^ -~\u00a1-\u024f…⟨⟩]")

_REPR = reprlib.Repr()
_REPR.maxlevel = 4
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxset = 20
_REPR.maxother = _REPR.maxlong = _REPR.maxstring = LONGEST


def printable(text: str, encoding: str = "utf-8", kept: str = "") -> str:
    """The text with code points, <U+001B>, for characters that are invisible, act on a terminal, or that it lacks.

    Args:
        encoding: that of the terminal; `kept`: characters that stay, such as line feeds.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one in kept else _shown(one, encoding) for one in text)


@lru_cache(maxsize=2**16)
def _shown(character: str, encoding: str) -> str:
    try:
        character.encode(encoding)
        lacking = False
    except (UnicodeEncodeError, LookupError):
        lacking = not character.isascii()
    if lacking and character == DASH:
        return "-"
    return f"<U+{ord(character):04X}>" if lacking or invisible(character) else character


def invisible(character: str) -> bool:
    """Whether a character shows nothing of itself, or acts on what stands around it: control, format, private and
    unassigned ones, surrogates, separators of lines; not spaces of any width."""
    return not character.isprintable() and unicodedata.category(character) != "Zs"


def quote(value: Any, most: int = LONGEST) -> str:
    """`repr(value)`, cut to `most` characters; deep and long values, and large whole numbers, are never written out."""
    try:
        text = repr(value) if isinstance(value, str) else _REPR.repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, or a value within itself
        return f"a value of type {type(value).__name__} that is too large to show"
    left_out = len(text) - most
    return text if left_out <= 0 else f"{text[:most]}... ({left_out:,} more characters)"


def one_line(text: object, most: int = 300) -> str:
    """A text, of another library's error, say, in one printable line of about `most` characters.

    A space stands for every line end and run of spaces. A longer text loses its middle: a beginning says where, an end
    often why.
    """
    line = " ".join(str(text).split())
    left_out = len(line) - most
    if left_out > 0:
        half = most // 2
        line = f"{line[:half]} ... [{left_out:,} characters left out] ... {line[-half:]}"
    return printable(line)


def listed(names: Iterable[object], most: int = 300) -> str:
    """Names joined by commas in about `most` characters, with how many more there are."""
    every = [one_line(name, 80) for name in names]
    shown = every[:1]
    for name in every[1:]:
        if len(", ".join([*shown, name])) > most:
            return f"{', '.join(shown)} and {len(every) - len(shown)} more"
        shown.append(name)
    return ", ".join(shown)


def visible(text: str, limit: int = 600) -> str:
    """A text for a page: what is invisible becomes its code point, ⟨U+202E⟩, but for line feeds and tabs; cut to
    `limit` characters. Markup stays: the template escapes it."""
    cut = text[:limit]
    shown = "".join(f"⟨U+{ord(one):04X}⟩" if invisible(one) and one not in "\n\t" else one for one in cut)
    left_out = len(text) - limit
    return f"{shown} … [{left_out:,} more characters]" if left_out > 0 else shown


def label(text: str, limit: int = 40) -> str:
    """A short text for a figure: one line, only characters that the figures' font has, no mathematics mode."""
    plain = _NO_GLYPH.sub("?", visible(text, limit))
    # A legend leaves out names that begin with an underscore.
    named = f" {plain}" if plain.startswith("_") else plain or "(no name)"
    return named.replace("\\", "/").replace("$", r"\$")


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


def shortened(text: str, most: int) -> str:
    """A text on one line, otherwise as `visible`, cut to `most` characters of which the last is then an ellipsis."""
    line = " ".join(visible(text, 4 * most).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
