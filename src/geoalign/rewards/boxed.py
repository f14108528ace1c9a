"""The final answer of a response: the last complete `\\boxed{...}`."""

from __future__ import annotations

import re

# In order: the opening of a box; a line break `\\` (whose second half escapes nothing), unless that second half opens a
# box in text escaped once too often; an escaped brace, which neither opens nor closes; a brace.
_TOKEN = re.compile(r"\\boxed\s*\{|\\\\(?!boxed)|\\[{}]|[{}]")


def last_boxed(text: str) -> str | None:
    """The content of the last `\\boxed{...}` in `text` whose braces are balanced, as it stands; None where none is.

    Of boxes within one another the innermost last one counts. One pass with a stack: time and memory are linear in the
    length of any text.
    """
    opened: list[int | None] = []  # where the content of a box starts; None for a plain brace
    best: tuple[int, int] | None = None
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark == "{":
            opened.append(None)
        elif mark == "}":
            start = opened.pop() if opened else None
            if start is not None and (best is None or start > best[0]):
                best = (start, token.start())
        elif mark.startswith(r"\boxed"):
            opened.append(token.end())
    return None if best is None else text[best[0] : best[1]]


def nesting_depth(text: str) -> int:
    """The largest number of brackets of any kind open at once in `text`."""
    depth = deepest = 0
    for character in text:
        if character in "({[":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")}]":
            depth -= 1
    return deepest
