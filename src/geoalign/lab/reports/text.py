"""Making text of a model harmless to look at: it is untrusted input and may try to deceive or to break the page."""

from __future__ import annotations

import unicodedata

LIMIT = 600
# A few combining marks on a letter are writing; towers of them overflow every box.
MAX_MARKS = 3


def inert(text: str, limit: int = LIMIT) -> str:
    """Text with everything invisible made visible, cut to `limit` characters.

    Control, format (bidirectional overrides, zero-width) and private characters, surrogates and odd line separators
    are written as their code points, <U+202E>; line feeds and tabs stay. More than three combining marks in a row are
    cut. Markup is left as it is: the template escapes it. The cut is announced with the number of characters left out.
    """
    shown = "".join(_visible(text[:limit]))
    left_out = len(text) - limit
    return shown if left_out <= 0 else f"{shown} … [{left_out:,} more characters]"


def _visible(text: str) -> list[str]:
    pieces, marks = [], 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category.startswith("M") else 0
        if marks > MAX_MARKS:
            continue
        hidden = category in ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp") and character not in "\n\t"
        pieces.append(f"⟨U+{ord(character):04X}⟩" if hidden else character)
    return pieces


def label(text: str, limit: int = 40) -> str:
    """A short text for a figure: one line, only characters that the figures' font has, no mathematics mode.

    A legend leaves out what has no name or begins with an underscore: such names get one that it shows.
    """
    plain = "".join(character if _has_glyph(character) else "?" for character in inert(text, limit))
    named = f" {plain}" if plain.startswith("_") else plain or "(no name)"
    return named.replace("\\", "/").replace("$", r"\$")


def _has_glyph(character: str) -> bool:
    return " " <= character <= "~" or "\xa1" <= character <= "\u024f" or character in "…⟨⟩"
