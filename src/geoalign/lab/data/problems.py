"""The task `math`: problems with gold answers from the user's own files or the hub.

The layout is recognised by the columns; what was left out is counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from geoalign.answers import final_answer, normal_form
from geoalign.answers.boxed import boxed_answer
from geoalign.answers.messages import Messages, read_messages
from geoalign.dumps.values import field_of
from geoalign.errors import InputError
from geoalign.lab.data.benchmarks import BENCHMARKS, Benchmark, benchmark_named
from geoalign.lab.data.decontaminate import decontaminate, exact, fingerprints, overlap_notes
from geoalign.lab.data.settings import MathConfig, MathSetConfig
from geoalign.lab.data.sources import LeftOutError, Read, read_sources
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


@dataclass(frozen=True)
class Layout:
    """Where a file of one kind keeps the parts of a problem; field names are dotted where values are nested.

    `columns`: what a row must have besides `prompt` and `answer` to be of this kind. `boxed`: the gold answer is the
    last `\\boxed{}` of the answer field. `pattern`: it is the group of this regular expression. `context`: a text that
    belongs before the problem. `set_name`: which of several sets in one file the row belongs to. `bare`: system
    messages and instruction texts of others go.
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
        box = ", the last \\boxed{} of it" if self.boxed else f", after {self.pattern}" if self.pattern else ""
        return f"{self.name} ({self.prompt}; {self.answer}{box})"


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


# What to do where no layout fits, in a run's settings.
_REMEDY = "prompt_field and answer_field name the columns of another layout"


def recognise(source: str, rows: Sequence[Mapping[str, Any]], *, remedy: str = _REMEDY) -> Layout:
    """The layout that fits most of these rows of one file (its first ones); `remedy`: what to do where none does."""
    counts = [sum(layout.fits(row) for row in rows) for layout in LAYOUTS]
    if max(counts):
        return LAYOUTS[counts.index(max(counts))]
    columns = sorted({str(name) for row in rows for name in row})
    raise InputError(
        f"{source}: expected the columns of a known layout ({'; '.join(map(str, LAYOUTS))}), got "
        f"{listed(columns) or 'no column'}; {remedy}"
    )


def _layout(source: str, head: Sequence[Mapping[str, Any]], how: MathConfig, remedy: str) -> Layout:
    """The fields to read, from the first rows of a file."""
    prompt, answer, pattern = how.prompt_field, how.answer_field, how.answer_pattern
    if prompt is not None and answer is not None:
        return Layout("", prompt, answer, pattern=pattern, bare=False)
    found = recognise(source, head, remedy=remedy)
    if pattern is not None or answer not in (None, found.answer):
        found = replace(found, boxed=False, pattern=pattern)
    return replace(found, prompt=prompt or found.prompt, answer=answer or found.answer, bare=prompt is None)


@dataclass(frozen=True)
class ProblemSet:
    """Problems in their order, the demonstration of each or None, and lines for the person who runs it."""

    problems: list[Problem]
    demonstrations: list[str | None]
    notes: list[str]


def load_problems(
    sources: str | Sequence[str], how: MathConfig, *, only: Collection[str] | None = None, remedy: str = _REMEDY
) -> ProblemSet:
    """The problems of local files or data sets on the hub as one set, read by the fields of `how` or by their layout.

    Where the layout is recognised, a prompt is the bare problem behind `system_prompt`; where `prompt_field` is given,
    it is the content of that field, and a system message of its own stays. `only`: of a file with several sets, those
    of these names (in lower case); and each problem once (DAPO's AIME 2024 has each 32 times). `remedy`: what to do
    where the columns are not known, for the error.
    """
    notes: list[str] = []
    known: set[object] = set()

    def reader_of(source: str, head: Sequence[Mapping[str, Any]]) -> Read[tuple[Problem, str | None, bool]]:
        layout = _layout(source, head, how, remedy)
        if layout.name:
            notes.append(f"{source}: read as {layout}")

        def read(where: str, row: Mapping[str, Any]) -> tuple[Problem, str | None, bool]:
            if only is not None and layout.set_name is not None:
                name = str(field_of(row, layout.set_name))
                if name.lower() not in only:
                    raise LeftOutError(f"of the set {name}")
            problem, unwrapped = _problem(where, row, layout, how.system_prompt)
            key = exact(problem.prompt), problem.answer
            if only is not None and key in known:
                raise LeftOutError("repeated")
            known.add(key)
            text = None if how.demonstration_field is None else field_of(row, how.demonstration_field)
            return problem, text if isinstance(text, str) and text.strip() else None, unwrapped

        return read

    items, left_out = read_sources(sources, reader_of, wanted="problem with an answer", limit=how.limit)
    notes += left_out
    if unwrapped := sum(each for *_, each in items):
        notes.append(f"another instruction text was taken off {unwrapped} problems")
    return ProblemSet([problem for problem, *_ in items], [text for _, text, _ in items], notes)


def load_benchmark(
    name: str, sources: str | Sequence[str], how: MathConfig | None = None, *, remedy: str = _REMEDY
) -> ProblemSet:
    """The benchmark of this name; of a file that holds several sets its own. Another row count is a note."""
    benchmark: Benchmark = benchmark_named(name)
    how = how or MathConfig(train=sources if isinstance(sources, str) else tuple(sources))
    read = load_problems(sources, how, only=(name, *benchmark.also_called), remedy=remedy)
    if len(read.problems) not in benchmark.problems:
        expected = " or ".join(map(str, benchmark.problems))
        read.notes.append(f"benchmark {name}: {len(read.problems)} problems, where {benchmark.title} has {expected}")
    return read


def _problem(where: str, row: Mapping[str, Any], layout: Layout, system_prompt: str | None) -> tuple[Problem, bool]:
    """The problem of a row, and whether an instruction text was taken off."""
    prompt = read_messages(field_of(row, layout.prompt))
    if prompt is None:
        raise LeftOutError("without a usable prompt")
    answer = _answer(field_of(row, layout.answer), layout)
    if not answer:
        raise LeftOutError("without a usable answer")
    unwrapped = False
    if layout.bare:
        prompt, unwrapped = _bare(prompt, None if layout.context is None else field_of(row, layout.context))
    if system_prompt is not None and all(message["role"] != "system" for message in prompt):
        prompt = ({"role": "system", "content": system_prompt}, *prompt)
    return Problem(where, prompt, answer), unwrapped


def bare_problem(text: str) -> str:
    """The problem without one of the `WRAPPERS`; a text without one stays as it is, outer spaces included."""
    stripped = text.strip()
    for before, after in WRAPPERS:
        if stripped.startswith(before) and stripped.endswith(after):
            inner = stripped.removeprefix(before).removesuffix(after).strip()
            if inner:
                return inner
    return text


def _bare(prompt: Messages, context: Any) -> tuple[Messages, bool]:
    *before, last = [message for message in prompt if message["role"] != "system"]
    text = bare_problem(last["content"])
    unwrapped = text != last["content"]
    if isinstance(context, str) and context.strip():
        text = f"{context.strip()}\n\n{text}"
    return (*before, {"role": "user", "content": text}), unwrapped


def _answer(value: Any, layout: Layout) -> str:
    text = _text_of(value)
    if layout.boxed:
        return (boxed_answer(text) or "").strip()
    if layout.pattern is None:
        return text
    matches = re.findall(layout.pattern, text)
    return matches[-1].strip() if matches else ""


def _text_of(value: Any) -> str:
    """A gold answer as text; empty where it is none. A list (several answers) is joined with commas."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, int | float):
        return str(value) if not isinstance(value, bool) and math.isfinite(value) else ""
    if isinstance(value, list):
        parts = [_text_of(part) for part in value]
        return ", ".join(parts) if all(parts) else ""
    return ""


def math_task(config: MathConfig) -> Task:
    """Problems read from their sources in order; with `drop`, `limit` counts what is left."""
    evaluation: dict[str, ProblemSet] = {}
    for name, given in config.evaluation.items():
        own = given if isinstance(given, MathSetConfig) else MathSetConfig(path=given)
        fields = {key: getattr(own, key) for key in ("prompt_field", "answer_field", "answer_pattern")}
        how = replace(config, **fields, demonstration_field=None, limit=None)
        evaluation[name] = load_benchmark(name, own.path, how) if name in BENCHMARKS else load_problems(own.path, how)
    sets = {name: read.problems for name, read in evaluation.items()}
    train = load_problems(config.train, replace(config, limit=None) if config.decontaminate == "drop" else config)
    prompts = [problem.prompt for problem in train.problems]
    rows, dropped = decontaminate(
        config.decontaminate,
        config.train if isinstance(config.train, str) else "training",
        [exact(prompt) for prompt in prompts],
        [normal_form(problem.answer) for problem in train.problems],
        prompts,
        chain.from_iterable(sets.values()),
    )
    if not rows:
        raise InputError(f"{config.train}: expected problems to be left by decontaminate: drop, got none")
    rows = rows[: config.limit]
    worked = [(prompts[row], train.demonstrations[row]) for row in rows]
    return Task(
        name="math",
        train_problems=[train.problems[row] for row in rows],
        evaluation_problems=sets,
        demonstrations=[Demonstration(prompt, text) for prompt, text in worked if text is not None],
        notes=[
            *(one for notes in (train.notes, dropped, *(read.notes for read in evaluation.values())) for one in notes),
            *(overlap_notes(sets, fingerprints(prompts)) if config.decontaminate == "report" else ()),
        ],
        final_answer=final_answer,
    )
