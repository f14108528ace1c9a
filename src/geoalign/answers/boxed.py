"""The final answer of a response: its last complete `\\boxed{...}`, or those listed at its end; and where it begins."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

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

# GSM8K's mark, a number alone behind it (otherwise it is a heading), and the words that name an answer; emphasis, a
# quotation or a bracket may stand before the answer itself.
_MARKS = (
    re.compile(r"(?<!#)####(?=[ \t]*(?:\$[ \t]*)?[-+]?[0-9.,/]+%?[ \t]*$)", re.MULTILINE),
    re.compile(r"\banswer\**\s*(?:\bis\b|:)", re.IGNORECASE),
)
_ADORNMENT = re.compile(r"[\s:$*_`\"'(\[]*")


class _Box(NamedTuple):
    """A complete box: where its `\\boxed` begins, where its content begins and ends, and the content."""

    opening: int
    start: int
    end: int
    content: str


def last_boxed(text: str) -> str | None:
    """The content of the last `\\boxed{...}` whose braces are balanced (of boxes within one another the innermost last
    one), unchanged; None where none is. Time and memory are linear in the length of any text."""
    last = next(_from_the_last(text), None)
    return None if last is None else last.content


def boxed_answer(text: str) -> str | None:
    r"""The answer that `text` gives in boxes, unchanged, usually the content of the last; None where none is complete.

    Where boxes stand before it in a list, as in `\boxed{-2} and \boxed{1}`, the answer is all of them with commas
    between, as math-verify reads it; one that repeats the one before it counts once. In a list there is nothing between
    two boxes but commas, "and", "or", spaces, an unknown (`x =`); or the ends of formulas, and then a comma or word.
    """
    contents = [box.content for box in _answer_boxes(text)]
    kept = contents[-1:]
    for content in contents[-2::-1]:
        if content.strip() != kept[-1].strip():
            kept.append(content)
    return ", ".join(reversed(kept)) if kept else None


def answer_start(text: str) -> int | None:
    r"""The index of the first character of the final answer; None where none is marked, or the mark names none.

    The answer is what stands in the last complete `\boxed{...}`, or in the first box of the list that this box ends;
    else behind the last `####` of a line with a number alone; else behind the last "answer is" or "answer:". Spaces,
    dollar signs, stars, quotation marks and opening brackets before it do not belong to it.
    """
    boxes = _answer_boxes(text)
    if boxes:
        first = boxes[0]
        return first.end - len(first.content.lstrip()) if first.content.strip() else None
    for mark in _MARKS:
        ends = [match.end() for match in mark.finditer(text)]
        if ends:
            adorned = _ADORNMENT.match(text, ends[-1])
            start = ends[-1] if adorned is None else adorned.end()
            return start if start < len(text) else None
    return None


def _answer_boxes(text: str) -> list[_Box]:
    """The boxes that give the answer of `text`, in their order: the last one, or the list of which it is the end."""
    boxes = _from_the_last(text)
    found = list(itertools.islice(boxes, 1))
    for box in boxes:
        first = found[-1]
        # An empty box is an answer left out, never part of a list.
        if not box.content.strip() or not first.content.strip():
            break
        if box.end >= first.opening or not _joins(text, box.end + 1, first.opening):
            break
        found.append(box)
    return found[::-1]


def _joins(text: str, start: int, end: int) -> bool:
    """Whether the text between two boxes makes a list of them."""
    between = text[start:end]
    if len(between) > _LONGEST_BETWEEN or not _BETWEEN.fullmatch(between):
        return False
    return re.search(_FORMULA_ENDS, between) is None or re.search(_SEPARATOR, between) is not None


def _from_the_last(text: str) -> Iterator[_Box]:
    """The complete boxes of a text, the one that opens last first."""
    opened: list[tuple[int, int] | None] = []  # where a box and its content start; None for a plain brace
    boxes: list[tuple[int, int, int]] = []
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark == "{":
            opened.append(None)
        elif mark == "}":
            start = opened.pop() if opened else None
            if start is not None:
                boxes.append((*start, token.start()))
        elif mark.startswith(r"\boxed"):
            opened.append((token.start(), token.end()))
    return (_Box(*box, text[box[1] : box[2]]) for box in sorted(boxes, reverse=True))
