"""The usual layouts of sets of problems, recognised by their columns; the prompt and the gold answer of one row."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geoalign.boxed import boxed_answer
from geoalign.errors import InputError
from geoalign.lab.tasks.base import Problem
from geoalign.lab.tasks.chat import Messages, read_messages
from geoalign.lab.tasks.rows import field_of
from geoalign.shown import listed, shown

_DAPO = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
    "$Answer (without quotes) where $Answer is the answer to the problem.",
    'Remember to put your answer on its own line after "Answer:".',
)
# Twenty Chinese problems of DAPO-Math-17k keep this below them.
_DAPO_CHINESE = (
    "让我们一步一步地思考。请以“Answer: \\boxed{<final_answer>}”的格式输出最终答案。"
    "如果是选择题，请按顺序输出正确的选项，不带任何标点或空格。对于其他类型的问题，请只输出最终答案的数值。"
)

# Instruction texts that data sets put before and after a problem, either may be empty; the paper's prompt has the bare
# problem.
WRAPPERS: tuple[tuple[str, str], ...] = (
    _DAPO,
    ("", _DAPO_CHINESE),
    ("", "Please reason step by step, and put your final answer within \\boxed{}."),
    ("", "Let's think step by step and output the final answer within \\boxed{}."),
    ("", 'Let\'s think step by step and output the final answer after "####".'),
)


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
    """The layout that fits most of these rows of one file (its first ones)."""
    counts = [sum(layout.fits(row) for row in rows) for layout in LAYOUTS]
    best = max(range(len(LAYOUTS)), key=lambda number: counts[number])
    if counts[best]:
        return LAYOUTS[best]
    columns = sorted({str(name) for row in rows for name in row})
    raise InputError(
        f"{source}: expected the columns of a known layout ({'; '.join(map(str, LAYOUTS))}), got "
        f"{', '.join(columns) or 'no column'}; prompt_field and answer_field name the columns of another layout"
    )


@dataclass(frozen=True)
class Fields:
    """The fields of one file, settled; see `Layout`.

    `id_given`: the user named the field of names, so every row must have one of its own. `bare`: the prompt is reduced
    to the problem: system messages and instruction texts of others go.
    """

    prompt: str
    answer: str
    boxed: bool = False
    pattern: str | None = None
    id: str | None = None
    id_given: bool = False
    context: str | None = None
    set_name: str | None = None
    bare: bool = False


class UnusableRowError(Exception):
    """A row without prompt, answer or name; becomes a count or an InputError."""

    def __init__(self, reason: str, name: str, expected: str, got: object, row: Mapping[str, Any]) -> None:
        known = f"; the row has {listed(row)}" if got is None else ""
        super().__init__(f"field {name}: expected {expected}, got {shown(got)}{known}")
        self.reason = reason


def read_problem(where: str, row: Mapping[str, Any], fields: Fields, system_prompt: str | None) -> tuple[Problem, bool]:
    """The problem of a row, and whether an instruction text was taken off it; `where` names it if nothing else does."""
    prompt = read_messages(field_of(row, fields.prompt))
    if prompt is None:
        expected = "a text or a list of chat messages that ends with the user's"
        raise UnusableRowError("prompt", fields.prompt, expected, field_of(row, fields.prompt), row)
    unwrapped = False
    if fields.bare:
        prompt, unwrapped = _bare(prompt, row, fields)
    if system_prompt is not None and all(message["role"] != "system" for message in prompt):
        prompt = ({"role": "system", "content": system_prompt}, *prompt)
    answer = _answer(row, fields)
    if fields.id is None:
        return Problem(where, prompt, answer), unwrapped
    name = field_of(row, fields.id)
    usable = isinstance(name, str | int) and not isinstance(name, bool) and name != ""
    if not usable and fields.id_given:
        raise UnusableRowError("id", fields.id, "a name", name, row)
    return Problem(str(name) if usable else where, prompt, answer), unwrapped


def bare_problem(text: str) -> str:
    """The problem without one of the `WRAPPERS`; a text without one stays as it is, outer spaces included."""
    stripped = text.strip()
    for before, after in WRAPPERS:
        if stripped.startswith(before) and stripped.endswith(after):
            inner = stripped.removeprefix(before).removesuffix(after).strip()
            if inner:
                return inner
    return text


def _bare(prompt: Messages, row: Mapping[str, Any], fields: Fields) -> tuple[Messages, bool]:
    messages = [message for message in prompt if message["role"] != "system"]
    given = messages[-1]["content"]
    text = bare_problem(given)
    unwrapped = text != given
    context = field_of(row, fields.context) if fields.context is not None else None
    if isinstance(context, str) and context.strip():
        text = f"{context.strip()}\n\n{text}"
    return (*messages[:-1], {"role": "user", "content": text}), unwrapped


def _answer(row: Mapping[str, Any], fields: Fields) -> str:
    value = field_of(row, fields.answer)
    text = _answer_text(value)
    if not text:
        raise UnusableRowError("answer", fields.answer, "a text or a number", value, row)
    if fields.boxed:
        boxed = (boxed_answer(text) or "").strip()
        if not boxed:
            raise UnusableRowError("answer", fields.answer, "a text with a \\boxed{} that is not empty", value, row)
        return boxed
    if fields.pattern is None:
        return text
    last = ""
    for match in re.finditer(fields.pattern, text):
        last = (match[1] or "").strip()
    if not last:
        raise UnusableRowError("answer", fields.answer, f"a match of {fields.pattern!r}", value, row)
    return last


def _answer_text(value: Any) -> str:
    """A gold answer as text; empty where it is none. A list (several answers) is joined with commas."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list) and value:
        parts = [_answer_text(part) if not isinstance(part, list) else "" for part in value]
        return ", ".join(parts) if all(parts) else ""
    return ""
