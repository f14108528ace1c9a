"""Where the final answer of a response begins."""

from __future__ import annotations

import re

from geoalign.boxed import answer_boxes

# GSM8K's mark, a number alone behind it (otherwise it is a heading), and the words that name an answer; emphasis, a
# quotation or a bracket may stand before the answer itself.
_MARKS = (
    re.compile(r"(?<!#)####(?=[ \t]*\$?[ \t]*[-+]?[0-9.,/]+%?[ \t]*$)", re.MULTILINE),
    re.compile(r"\banswer\**\s*(?:\bis\b|:)", re.IGNORECASE),
)
_ADORNMENT = re.compile(r"[\s:$*_`\"'(\[]*")


def answer_start(text: str) -> int | None:
    r"""The index of the first character of the final answer; None where none is marked.

    The answer is what stands in the last complete `\boxed{...}`, or in the first box of the list that this box ends;
    else behind the last `####` of a line with a number alone; else behind the last "answer is" or "answer:". Spaces,
    dollar signs, stars, quotation marks and opening brackets before it do not belong to it. A number without such a
    mark is no answer here: the last one of a text may be a date or a line of code. An empty box, or a mark at the very
    end, names none.
    """
    boxes = answer_boxes(text)
    if boxes:
        first = boxes[0]
        content = text[first.start : first.end]
        return first.start + len(content) - len(content.lstrip()) if content.strip() else None
    for mark in _MARKS:
        ends = [match.end() for match in mark.finditer(text)]
        if ends:
            adorned = _ADORNMENT.match(text, ends[-1])
            start = ends[-1] if adorned is None else adorned.end()
            return start if start < len(text) else None
    return None
