"""The task `math`: problems with gold answers from the user's own files or the hub.

The layout is recognised by the columns; what was left out is counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from geoalign.answers import final_answer, normal_form
from geoalign.answers.boxed import boxed_answer
from geoalign.answers.messages import read_messages
from geoalign.dumps.values import field_of
from geoalign.errors import InputError
from geoalign.lab.data.benchmarks import BENCHMARKS, Benchmark
from geoalign.lab.data.decontaminate import decontaminate, exact_key, overlap_notes, prompt_fingerprints
from geoalign.lab.data.settings import MATH_SYSTEM_PROMPT, FieldsConfig, MathConfig, MathSetConfig
from geoalign.lab.data.sources import LeftOutError, first_rows, open_sources, usable_rows
from geoalign.lab.data.task import Demonstration, Problem, Task
from geoalign.text import listed

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

# Texts that data sets put before and after a problem, either may be empty; the paper's prompt has the bare problem.
WRAPPERS: tuple[tuple[str, str], ...] = (
    _DAPO,
    ("", _DAPO_CHINESE),
    ("", "Please reason step by step, and put your final answer within \\boxed{}."),
    ("", "Let's think step by step and output the final answer within \\boxed{}."),
    ("", 'Let\'s think step by step and output the final answer after "####".'),
)


# --- layouts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Where a file of one kind keeps the parts of a problem; field names are dotted where values are nested.

    Attributes:
        name: what the layout is called; empty where the user named the fields.
        columns: what a row must have besides `prompt` and `answer` to be of this kind.
        boxed: the gold answer is the last `\\boxed{}` of the answer field.
        pattern: the gold answer is the group of this regular expression.
        context: a text that belongs before the problem.
        set_name: which of several sets in one file the row belongs to.
        bare: system messages and instruction texts of others go.
    """

    name: str
    prompt: str
    answer: str
    columns: tuple[str, ...] = ()
    boxed: bool = False
    pattern: str | None = None
    context: str | None = None
    set_name: str | None = None
    bare: bool = True

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has all that this layout asks for."""
        if any(field_of(row, name) is None for name in (*self.columns, self.prompt, self.answer)):
            return False
        return self.pattern is None or re.search(self.pattern, str(field_of(row, self.answer))) is not None

    def __str__(self) -> str:
        how = ""
        if self.boxed:
            how = ", the last \\boxed{} of it"
        elif self.pattern is not None:
            how = f", after {self.pattern}"
        return f"{self.name} ({self.prompt}; {self.answer}{how})"


# The more particular first: of the layouts that fit equally many rows the first is taken.
LAYOUTS: tuple[Layout, ...] = (
    # DAPO's AIME 2024: the bare problem is beside the wrapped prompt.
    Layout("verl with the raw problem", "extra_info.raw_problem", "reward_model.ground_truth"),
    # open-r1's processed DAPO-Math-17k: `solution` is the bare answer.
    Layout("processed DAPO", "prompt", "solution", columns=("source_prompt", "reward_model.ground_truth")),
    Layout("verl", "prompt", "reward_model.ground_truth"),
    Layout("ROLL", "prompt", "ground_truth", columns=("source", "messages"), set_name="source"),
    Layout("several sets", "question", "ref_answer", columns=("data_source",), set_name="data_source"),
    Layout("OlympiadBench", "question", "final_answer", context="context"),
    # One copy has a list `answer` besides; the box is the gold of both.
    Layout("Minerva", "problem", "solution", columns=("type", "idx"), boxed=True),
    Layout("MATH-500", "problem", "answer", columns=("subject", "level")),
    Layout("problem and answer", "problem", "answer"),
    Layout("problem and boxed solution", "problem", "solution", boxed=True),
    Layout("GSM8K", "question", "answer", pattern=r"####\s*(.+)"),
    Layout("question and answer", "question", "answer"),
    Layout("prompt and answer", "prompt", "answer"),
)


def recognise(source: str, rows: Sequence[Mapping[str, Any]]) -> Layout:
    """The layout that fits most of these rows of one file (its first ones); InputError where none fits any."""
    counts = [sum(layout.fits(row) for row in rows) for layout in LAYOUTS]
    if max(counts):
        return LAYOUTS[counts.index(max(counts))]
    columns = sorted({str(name) for row in rows for name in row})
    raise InputError(
        f"{source}: expected the columns of a known layout ({'; '.join(map(str, LAYOUTS))}), got "
        f"{listed(columns) or 'no column'}; prompt_field and answer_field name the columns of another layout "
        "(of `geoalign evaluate`: --set fields.NAME.prompt_field=FIELD)"
    )


def layout_of(source: str, rows: Sequence[Mapping[str, Any]], fields: FieldsConfig) -> Layout:
    """The layout of a file from its first rows; fields that the user names come before those that are recognised."""
    if fields.prompt_field is not None and fields.answer_field is not None:
        return Layout("", fields.prompt_field, fields.answer_field, pattern=fields.answer_pattern, bare=False)
    layout = recognise(source, rows)
    if fields.answer_field is not None and fields.answer_field != layout.answer:
        layout = replace(layout, answer=fields.answer_field, boxed=False, pattern=None)
    if fields.answer_pattern is not None:
        layout = replace(layout, boxed=False, pattern=fields.answer_pattern)
    if fields.prompt_field is not None:
        layout = replace(layout, prompt=fields.prompt_field, bare=False)
    return layout


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MathRow:
    """The problem of a row, its worked solution or None, and whether an instruction text was taken off the problem."""

    problem: Problem
    demonstration: str | None
    unwrapped: bool


@dataclass(frozen=True)
class RowReader:
    """Reads the rows of one file.

    Attributes:
        benchmark: only its own rows are read where the file holds several sets, and each problem once; None: all.
        already_read: the problems of the benchmark that were read so far.
    """

    layout: Layout
    system_prompt: str | None
    demonstration_field: str | None
    benchmark: Benchmark | None
    already_read: set[Hashable]

    def __call__(self, where: str, row: Mapping[str, Any]) -> MathRow:
        """The problem of a row; LeftOutError where it is not usable or not wanted."""
        layout = self.layout
        if self.benchmark is not None and layout.set_name is not None:
            set_name = str(field_of(row, layout.set_name))
            if set_name.lower() not in self.benchmark.names:
                raise LeftOutError(f"of the set {set_name}")
        prompt = read_messages(field_of(row, layout.prompt))
        if prompt is None:
            raise LeftOutError("without a usable prompt")
        answer = _gold_answer(field_of(row, layout.answer), layout)
        if not answer:
            raise LeftOutError("without a usable answer")
        unwrapped = False
        if layout.bare:
            text = bare_problem(prompt[-1]["content"])
            unwrapped = text != prompt[-1]["content"]
            context = None if layout.context is None else field_of(row, layout.context)
            if isinstance(context, str) and context.strip():
                text = f"{context.strip()}\n\n{text}"
            before = [message for message in prompt[:-1] if message["role"] != "system"]
            prompt = (*before, {"role": "user", "content": text})
        if self.system_prompt is not None and all(message["role"] != "system" for message in prompt):
            prompt = ({"role": "system", "content": self.system_prompt}, *prompt)
        if self.benchmark is not None:
            key = (exact_key(prompt), answer)
            if key in self.already_read:
                raise LeftOutError("repeated")
            self.already_read.add(key)
        demonstration = None if self.demonstration_field is None else field_of(row, self.demonstration_field)
        if not isinstance(demonstration, str) or not demonstration.strip():
            demonstration = None
        return MathRow(Problem(where, prompt, answer), demonstration, unwrapped)


def bare_problem(text: str) -> str:
    """The problem without one of the `WRAPPERS`; a text without one stays as it is, outer spaces included."""
    stripped = text.strip()
    for before, after in WRAPPERS:
        if stripped.startswith(before) and stripped.endswith(after):
            inner = stripped.removeprefix(before).removesuffix(after).strip()
            if inner:
                return inner
    return text


def _gold_answer(value: Any, layout: Layout) -> str:
    """The gold answer in the value of a row's answer field; empty where there is none."""
    text = _text_of(value)
    if layout.boxed:
        return (boxed_answer(text) or "").strip()
    if layout.pattern is None:
        return text
    matches = re.findall(layout.pattern, text)
    return matches[-1].strip() if matches else ""


def _text_of(value: Any) -> str:
    """A gold answer as text; empty for a value that is no answer. A list (several answers) is joined with commas."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | float):
        return str(value) if not isinstance(value, bool) and math.isfinite(value) else ""
    if isinstance(value, list):
        parts = [_text_of(part) for part in value]
        return ", ".join(parts) if all(parts) else ""
    return ""


# --- sets and the task ------------------------------------------------------------------------------------------------


def load_problems(
    sources: str | Sequence[str],
    *,
    fields: FieldsConfig | None = None,
    benchmark: Benchmark | None = None,
    system_prompt: str | None = MATH_SYSTEM_PROMPT,
    demonstration_field: str | None = None,
    limit: int | None = None,
) -> tuple[list[MathRow], list[str]]:
    """The usable rows of local files or hub ids as one set, and lines on how they were read and what was left out.

    Where the layout is recognised, a prompt is the bare problem behind `system_prompt`. Where `fields.prompt_field` is
    given, it is the content of that field, and a system message of its own stays.

    Args:
        fields: the fields that the user names; None: all are recognised.
        benchmark: of a file with several sets only the rows of this one are read, and each problem once (DAPO's AIME
            2024 has each 32 times); another number of problems than the benchmark's is noted.
        limit: the most problems to take of each source, from the first on.
    """
    already_read: set[Hashable] = set()
    found: list[MathRow] = []
    layouts = []
    left_out = []
    for source, rows in open_sources(sources):
        head, rows = first_rows(rows)
        layout = layout_of(source, head, fields or FieldsConfig())
        if layout.name:
            layouts.append(f"{source}: read as {layout}")
        read = RowReader(
            layout=layout,
            system_prompt=system_prompt,
            demonstration_field=demonstration_field,
            benchmark=benchmark,
            already_read=already_read,
        )
        of_source, lines = usable_rows(source, rows, read, wanted="problem with an answer", limit=limit)
        found += of_source
        left_out += lines
    notes = [*layouts, *left_out]
    unwrapped = sum(row.unwrapped for row in found)
    if unwrapped:
        notes.append(f"another instruction text was taken off {unwrapped} problems")
    if benchmark is not None and len(found) not in benchmark.problems:
        expected = " or ".join(map(str, benchmark.problems))
        notes.append(f"benchmark {benchmark.name}: {len(found)} problems, where {benchmark.title} has {expected}")
    return found, notes


def math_task(config: MathConfig) -> Task:
    """Problems read from their sources in order; with `decontaminate: drop`, `limit` counts what is left."""
    evaluation: dict[str, list[Problem]] = {}
    evaluation_notes: list[str] = []
    for name, given in config.evaluation.items():
        named = given if isinstance(given, MathSetConfig) else MathSetConfig(path=given)
        rows, lines = load_problems(
            named.path, fields=named, benchmark=BENCHMARKS.get(name), system_prompt=config.system_prompt
        )
        evaluation[name] = [row.problem for row in rows]
        evaluation_notes += lines
    train, notes = load_problems(
        config.train,
        fields=config,
        system_prompt=config.system_prompt,
        demonstration_field=config.demonstration_field,
        limit=None if config.decontaminate == "drop" else config.limit,
    )
    prompts = [row.problem.prompt for row in train]
    kept, decontamination_notes = decontaminate(
        config.decontaminate,
        config.train if isinstance(config.train, str) else "training",
        keys=[exact_key(prompt) for prompt in prompts],
        answers=[normal_form(row.problem.answer) for row in train],
        prompts=prompts,
        evaluated=chain.from_iterable(evaluation.values()),
    )
    if not kept:
        raise InputError(f"{config.train}: expected problems to be left by decontaminate: drop, got none")
    notes = [*notes, *decontamination_notes, *evaluation_notes]
    if config.decontaminate == "report":
        notes += overlap_notes(evaluation, prompt_fingerprints(prompts))
    used = [train[number] for number in kept[: config.limit]]
    return Task(
        name="math",
        train_problems=[row.problem for row in used],
        evaluation_problems=evaluation,
        demonstrations=[
            Demonstration(row.problem.prompt, row.demonstration) for row in used if row.demonstration is not None
        ],
        notes=notes,
        final_answer=final_answer,
    )
