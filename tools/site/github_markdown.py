"""What GitHub's Markdown has and Python's has not. Pages are written for both: GitHub shows them too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_FENCE = re.compile(r"^[ >]*(?P<fence>`{3,}|~{3,})(?P<rest>.*)$")
_ITEM = re.compile(r"^ *(?P<mark>[-*+]|\d{1,9}[.)]) +(?=\S)")
_HEADING = re.compile(r"^#{1,6} +(.*?)(?: +#+)?$", re.MULTILINE)
# A heading, or the first line of a note, a folded note or a tab: no paragraph that a list would have to leave.
_NO_PARAGRAPH = ("#", "!!! ", "??? ", "???+ ", "=== ")
_PICTURE = re.compile(r"<picture>(.*?)</picture>", re.DOTALL)
_DARK = re.compile(r"<source[^>]*prefers-color-scheme: *dark[^>]*>", re.DOTALL)


def pieces(text: str) -> Iterator[tuple[bool, str]]:
    """A page as pieces of whole lines: whether the piece is a fenced block of code, and its text."""
    fence = ""
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        match = _FENCE.match(line.rstrip("\n"))
        if match and not fence:
            yield False, "".join(lines)
            lines = [line]
            fence = match["fence"]
        elif match and match["fence"].startswith(fence) and not match["rest"].strip():
            yield True, "".join([*lines, line])
            lines = []
            fence = ""
        else:
            lines.append(line)
    yield bool(fence), "".join(lines)


def outside_fences(text: str, change: Callable[[str], str]) -> str:
    """The page with everything changed that is not a fenced block of code."""
    return "".join(piece if fenced else change(piece) for fenced, piece in pieces(text))


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for fenced, piece in pieces(text):
        titles = [] if fenced else _HEADING.findall(piece)
        for title in titles:
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
            anchor = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
            repeats = 0
            while (f"{anchor}-{repeats}" if repeats else anchor) in found:
                repeats += 1
            found.add(f"{anchor}-{repeats}" if repeats else anchor)
    return found


@dataclass
class _OpenItem:
    """An item of a list whose text begins at `column`, and at `column_there` in the result."""

    column: int
    column_there: int


@dataclass
class _Lists:
    """Reads a page line by line and writes its lists as Python-Markdown wants them.

    `block` is what the last line belongs to: "text", "list", "table", or "" after a blank line, heading or code.
    """

    lines: list[str] = field(default_factory=list)
    items: list[_OpenItem] = field(default_factory=list)
    block: str = ""

    def code(self, piece: str) -> None:
        """A fenced block, which stays within the item that it is indented for."""
        first = piece.splitlines()[0]
        self._close_items(first)
        for line in piece.splitlines():
            self.lines.append(self._moved(line))
        self.block = ""

    def line(self, line: str) -> None:
        if not line.strip():
            self.lines.append(line)
            self.block = ""
            return
        item = _ITEM.match(line)
        if item and self.block == "text" and item["mark"] not in ("-", "*", "+", "1.", "1)"):
            # A line of prose that begins with a number: only a list's first number interrupts a paragraph.
            item = None
        is_table = line.lstrip().startswith("|")
        if item or not self.block:
            self._close_items(line)
        if self.block == "text" and (item or is_table):
            self.lines.append("")
        moved = self._moved(line)
        self.lines.append(moved)
        if item:
            indent_there = len(moved) - len(moved.lstrip(" "))
            self.items.append(_OpenItem(column=item.end(), column_there=indent_there + 4))
            self.block = "list"
        elif is_table:
            self.block = "table"
        elif line.lstrip().startswith(_NO_PARAGRAPH):
            self.block = ""
        elif not self.block:
            self.block = "text"

    def _close_items(self, line: str) -> None:
        indent = len(line) - len(line.lstrip(" "))
        while self.items and indent < self.items[-1].column:
            self.items.pop()

    def _moved(self, line: str) -> str:
        indent = len(line) - len(line.lstrip(" "))
        if not self.items or indent < self.items[-1].column:
            return line
        return " " * (self.items[-1].column_there + indent - self.items[-1].column) + line.lstrip(" ")


def lists_of_four_spaces(text: str) -> str:
    """Lists as Python-Markdown reads them: a blank line before, and four spaces a level instead of two or three.

    A table that directly follows a line of text gets its blank line too.
    """
    lists = _Lists()
    for fenced, piece in pieces(text):
        if fenced:
            lists.code(piece)
            continue
        for line in piece.splitlines():
            lists.line(line)
    return "\n".join([*lists.lines, ""])


def pictures_of_both_schemes(text: str) -> str:
    """`<picture>` with a source for dark mode as two pictures, so that the site's own switch chooses between them."""
    return outside_fences(text, lambda piece: _PICTURE.sub(_two_pictures, piece))


def _two_pictures(match: re.Match[str]) -> str:
    dark = _DARK.search(match[1])
    image = re.search(r"<img[^>]*>", match[1], re.DOTALL)
    if dark is None or image is None:
        return match[0]
    words = _value("alt", image[0])
    light_address = _value("src", image[0])
    dark_address = _value("srcset", dark[0])
    width = _value("width", image[0])
    size = f'{{ width="{width}" }}' if width else ""
    return f"![{words}]({light_address}#only-light){size}![{words}]({dark_address}#only-dark){size}"


def _value(attribute: str, tag: str) -> str:
    """The value of an attribute of a tag, empty if it has none."""
    found = re.search(rf'\b{attribute}="([^"]*)"', tag)
    return found[1] if found else ""
