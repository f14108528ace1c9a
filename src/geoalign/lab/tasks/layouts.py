"""The usual layouts of sets of problems, recognised by the columns of their rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geoalign.errors import InputError
from geoalign.lab.tasks.rows import field_of


@dataclass(frozen=True)
class Layout:
    """Where a file of one kind keeps the parts of a problem; field names are dotted where values are nested.

    `columns`: what a row must have besides `prompt` and `answer` to be of this kind. `boxed`: the gold answer is the
    last `\\boxed{}` of the answer field. `pattern`: the answer is the group of this regular expression. `id`: a name of
    the row; rows that repeat a named row before them are one problem. `context`: a text that belongs before the
    problem. `set_name`: which of several sets in one file the row belongs to.
    """

    name: str
    prompt: str
    answer: str
    columns: tuple[str, ...] = ()
    boxed: bool = False
    pattern: str | None = None
    id: str | None = None
    context: str | None = None
    set_name: str | None = None

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has all that this layout asks for."""
        if any(field_of(row, name) is None for name in (*self.columns, self.prompt, self.answer)):
            return False
        return self.pattern is None or re.search(self.pattern, str(field_of(row, self.answer))) is not None

    def __str__(self) -> str:
        box = ", the last \\boxed{} of it" if self.boxed else f", after {self.pattern}" if self.pattern else ""
        return f"{self.name} ({self.prompt}; {self.answer}{box})"


# The more particular first: of the layouts that fit equally many rows the first is taken.
LAYOUTS: tuple[Layout, ...] = (
    # DAPO's AIME 2024: the bare problem is beside the wrapped prompt.
    Layout("verl with the raw problem", "extra_info.raw_problem", "reward_model.ground_truth", id="extra_info.index"),
    # open-r1's processed DAPO-Math-17k: `solution` is the bare answer.
    Layout("processed DAPO", "prompt", "solution", columns=("source_prompt", "reward_model.ground_truth")),
    Layout("verl", "prompt", "reward_model.ground_truth", id="extra_info.index"),
    # Its `messages` (JSON in a text) repeats `prompt` behind a system prompt.
    Layout("ROLL", "prompt", "ground_truth", columns=("source", "messages"), id="id", set_name="source"),
    Layout("several sets", "question", "ref_answer", columns=("data_source",), set_name="data_source"),
    Layout("OlympiadBench", "question", "final_answer", id="id", context="context"),
    # One copy has a list `answer` besides; the box is the gold of both.
    Layout("Minerva", "problem", "solution", columns=("type", "idx"), boxed=True, id="idx"),
    Layout("MATH-500", "problem", "answer", columns=("subject", "level"), id="unique_id"),
    Layout("problem and answer, named", "problem", "answer", columns=("id",), id="id"),
    Layout("problem and answer", "problem", "answer"),
    Layout("problem and boxed solution", "problem", "solution", boxed=True),
    Layout("GSM8K", "question", "answer", pattern=r"####\s*(.+)"),
    Layout("question and answer, named", "question", "answer", columns=("id",), id="id"),
    Layout("question and answer", "question", "answer"),
    Layout("prompt and answer", "prompt", "answer"),
)


def recognise(source: str, rows: Sequence[Mapping[str, Any]]) -> Layout:
    """The layout that fits most of these rows of one file (its first ones).

    Raises:
        InputError: none fits any row; the message has the columns that there are and the layouts known.
    """
    counts = [sum(layout.fits(row) for row in rows) for layout in LAYOUTS]
    best = max(range(len(LAYOUTS)), key=lambda number: counts[number])
    if counts[best]:
        return LAYOUTS[best]
    columns = sorted({str(name) for row in rows for name in row})
    raise InputError(
        f"{source}: expected the columns of a known layout ({'; '.join(map(str, LAYOUTS))}), got "
        f"{', '.join(columns) or 'no column'}; prompt_field and answer_field name the columns of another layout"
    )
