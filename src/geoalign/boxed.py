"""The final answer of a response: its last complete `\\boxed{...}`, or those listed at its end."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

# In order: the opening of a box; a line break `\\` (whose second half escapes nothing), unless that second half opens a
# box in text escaped once too often; an escaped brace, which neither opens nor closes; a brace.
_TOKEN = re.compile(r"\\boxed\s*\{|\\\\(?!boxed)|\\[{}]|[{}]")


# What may stand between the boxes of a list: spaces, the ends of formulas, "," ";" "and" "or", the name of an unknown.
_SEPARATOR = r"(?<!\\)[,;]|(?<![A-Za-z])(?:and|or)(?![A-Za-z])|\\(?:lor|vee)(?![A-Za-z])"
_FORMULA_ENDS = r"\$|\\[()\[\]]"
_BETWEEN = re.compile(
    rf"(?:{_SEPARATOR}|{_FORMULA_ENDS}|\s|~|\\[,;:! \\]|\\q?quad(?![A-Za-z])"
    r"|\\(?:text|textrm|mathrm)\s*\{\s*,?\s*(?:and|or)\s*\}"
    r"|(?<![A-Za-z])[A-Za-z](?:_(?:[A-Za-z0-9]|\{[A-Za-z0-9]+\}))?\s*=)*"
)
_LONGEST_BETWEEN = 70


@dataclass(frozen=True)
class Box:
    """A complete box: where its `\\boxed` begins, and its content begins and ends."""

    opening: int
    start: int
    end: int


def last_boxed(text: str) -> str | None:
    """The content of the last `\\boxed{...}` in `text` whose braces are balanced, unchanged; None where none is.

    Of boxes within one another the innermost last one counts. One pass with a stack: time and memory are linear in the
    length of any text.
    """
    last = next(_from_the_last(text), None)
    return None if last is None else text[last.start : last.end]


def boxed_answer(text: str) -> str | None:
    r"""The answer that `text` gives in boxes, unchanged; None where no box is complete.

    Usually the content of the last box (`last_boxed`). Where boxes stand before it in a list, as in `\boxed{-2} and
    \boxed{1}`, the answer is all of them with commas between, as math-verify reads it; a content that repeats the one
    before it counts once. In a list there is nothing between two boxes but commas, "and", "or", spaces, an unknown
    (`x =`); or the ends of formulas, and then at least one comma or word. So several guesses in a list are the set of
    them, which no single answer equals. Boxes with other words between them are no list: the last one counts.
    """
    contents: list[str] = []
    for box in reversed(answer_boxes(text)):
        content = text[box.start : box.end]
        if not contents or content.strip() != contents[-1].strip():
            contents.append(content)
    return ", ".join(reversed(contents)) if contents else None


def answer_boxes(text: str) -> list[Box]:
    """The boxes that give the answer of `text`, in their order: the last one, or the list of which it is the end."""
    boxes = _from_the_last(text)
    found = list(itertools.islice(boxes, 1))
    for box in boxes:
        first = found[-1]
        # An empty box is an answer left out, never part of a list.
        if not text[box.start : box.end].strip() or not text[first.start : first.end].strip():
            break
        if box.end >= first.opening or not _joins(text, box.end + 1, first.opening):
            break
        found.append(box)
    return found[::-1]


def _joins(text: str, start: int, end: int) -> bool:
    """Whether the text between two boxes makes a list of them."""
    if end - start > _LONGEST_BETWEEN:
        return False
    between = text[start:end]
    if not _BETWEEN.fullmatch(between):
        return False
    return re.search(_FORMULA_ENDS, between) is None or re.search(_SEPARATOR, between) is not None


def _from_the_last(text: str) -> Iterator[Box]:
    """The complete boxes of a text, the one that opens last first."""
    opened: list[tuple[int, int] | None] = []  # where a box and its content start; None for a plain brace
    boxes: list[Box] = []
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark == "{":
            opened.append(None)
        elif mark == "}":
            start = opened.pop() if opened else None
            if start is not None:
                boxes.append(Box(*start, token.start()))
        elif mark.startswith(r"\boxed"):
            opened.append((token.start(), token.end()))
    return iter(sorted(boxes, key=lambda box: -box.opening))
