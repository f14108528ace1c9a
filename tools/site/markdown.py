"""What the pages of the reference are written with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar within a cell is escaped, but in code, where the site shows it as it is."""
    lines = [_row(head), _row(["---"] * len(head))]
    lines.extend(_row([_cell(text) for text in row]) for row in rows)
    return "\n".join(lines)


def paragraphs(docstring: str) -> str:
    """A docstring as Markdown: its paragraphs are kept, their lines joined."""
    blocks = docstring.strip().split("\n\n")
    return "\n\n".join(" ".join(line.strip() for line in block.splitlines()) for block in blocks)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    return re.sub(r"`[^`]*`|\|", lambda match: "\\|" if match[0] == "|" else match[0], " ".join(text.split()))
