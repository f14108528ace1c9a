"""Problems with gold answers from a file or the hub.

The layout is recognised by the columns; what was skipped or repeated is counted.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

from geoalign.boxed import boxed_answer
from geoalign.errors import InputError
from geoalign.lab.config.benchmarks import Benchmark, benchmark_named
from geoalign.lab.config.tasks import MathConfig
from geoalign.lab.tasks.base import Problem
from geoalign.lab.tasks.chat import Messages, read_messages
from geoalign.lab.tasks.decontaminate import exact
from geoalign.lab.tasks.rows import field_of, rows_of

# So many rows are looked at to recognise a layout.
_HEAD = 100

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


def recognise(source: str, rows: Sequence[Mapping[str, Any]]) -> Layout:
    """The layout that fits most of these rows of one file (its first ones)."""
    counts = [sum(layout.fits(row) for row in rows) for layout in LAYOUTS]
    if max(counts):
        return LAYOUTS[counts.index(max(counts))]
    columns = sorted({str(name) for row in rows for name in row})
    raise InputError(
        f"{source}: expected the columns of a known layout ({'; '.join(map(str, LAYOUTS))}), got "
        f"{', '.join(columns) or 'no column'}; prompt_field and answer_field name the columns of another layout"
    )


def _layout(source: str, head: Sequence[Mapping[str, Any]], how: MathConfig, *, inherited: bool) -> Layout:
    """The fields to read, from the first rows of a file; those that are `inherited` count where it has them."""
    prompt, answer, pattern = how.prompt_field, how.answer_field, how.answer_pattern
    wanted = [name for name in (prompt, answer) if name is not None]
    if inherited and not any(all(field_of(row, name) is not None for name in wanted) for row in head):
        prompt = answer = pattern = None
    if prompt is not None and answer is not None:
        return Layout("", prompt, answer, pattern=pattern, bare=False)
    found = recognise(source, head)
    if pattern is not None or answer not in (None, found.answer):
        found = replace(found, boxed=False, pattern=pattern)
    return replace(found, prompt=prompt or found.prompt, answer=answer or found.answer, bare=prompt is None)


@dataclass(frozen=True)
class ProblemSet:
    """Problems in their order, the demonstration of each or None, and lines for the person who runs it."""

    problems: list[Problem] = field(default_factory=list)
    demonstrations: list[str | None] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def load_problems(
    sources: str | Sequence[str], how: MathConfig, *, inherited: bool = False, only: Collection[str] | None = None
) -> ProblemSet:
    """The problems of local files or data sets on the hub as one set, read by the fields of `how` or by their layout.

    Where the layout is recognised, a prompt is the bare problem behind `system_prompt`; where `prompt_field` is given,
    it is the content of that field, and a system message of its own stays. Problems are named by their rows; of several
    sources, names begin with the source's number. `inherited`: the fields are those of another file, and count only
    where this file has them. `only`: of a file with several sets, those of these names (in lower case); and each
    problem once (DAPO's AIME 2024 has each 32 times).
    """
    given = (sources,) if isinstance(sources, str) else tuple(sources)
    whole = ProblemSet()
    for number, source in enumerate(given, start=1):
        read = _read(source, how, inherited, only)
        prefix = "" if len(given) == 1 else f"file {number}, "
        whole.problems.extend(replace(problem, id=prefix + problem.id) for problem in read.problems)
        whole.demonstrations.extend(read.demonstrations)
        whole.notes.extend(source + line for line in read.notes)
    return whole


def load_benchmark(
    name: str, sources: str | Sequence[str], how: MathConfig | None = None, *, inherited: bool = False
) -> ProblemSet:
    """The benchmark of this name, read from files or hub ids that make it up (AIME 2025 I and II).

    Of a file that holds several sets the benchmark's own is taken. A row count other than the expected is a note.
    """
    benchmark: Benchmark = benchmark_named(name)
    how = how or MathConfig(train=sources if isinstance(sources, str) else tuple(sources))
    read = load_problems(sources, how, inherited=inherited, only=(name, *benchmark.also_called))
    if len(read.problems) not in benchmark.problems:
        expected = " or ".join(map(str, benchmark.problems))
        read.notes.append(f"benchmark {name}: {len(read.problems)} problems, where {benchmark.title} has {expected}")
    return read


def _read(source: str, how: MathConfig, inherited: bool, only: Collection[str] | None) -> ProblemSet:
    rows = rows_of(source)
    head = list(islice(rows, _HEAD))
    if not head:
        raise InputError(f"{source}: expected at least one usable row; got no row at all")
    layout = _layout(source, [row for _, row in head], how, inherited=inherited)
    found: list[tuple[Problem, str | None]] = []
    known = set()
    skipped: Counter[str] = Counter()
    sets: Counter[str] = Counter()
    first, repeated, unwrapped = "", 0, 0
    for where, row in chain(head, rows):
        if len(found) == how.limit:
            break
        if layout.set_name is not None:
            sets[name := str(field_of(row, layout.set_name))] += 1
            if only is not None and name.lower() not in only:
                continue
        problem, reason = _problem(where, row, layout, how.system_prompt)
        if problem is None:
            first = first or where
            skipped[reason] += 1
            continue
        key = exact(problem.prompt), problem.answer
        if only is not None and key in known:
            repeated += 1
            continue
        known.add(key)
        unwrapped += reason == "unwrapped"
        demonstration = None if how.demonstration_field is None else field_of(row, how.demonstration_field)
        if how.demonstration_field is not None and not (isinstance(demonstration, str) and demonstration.strip()):
            demonstration = None
            skipped["demonstration"] += 1
        found.append((problem, demonstration))
    if not found:
        wanted = f"a problem in {layout.prompt} and an answer in {layout.answer}"
        of_sets = f" of {', '.join(only)} (there are {', '.join(sets)})" if only and sets else ""
        raise InputError(f"{source}: expected at least one row{of_sets} with {wanted}, got none")
    notes = [f": read as {layout}"] if layout.name else []
    if len(sets) > 1:
        counts = ", ".join(f"{name} {count}" for name, count in sets.items())
        used = None if only is None else ", ".join(name for name in sets if name.lower() in only)
        notes.append(f": holds several sets ({counts}); {'all are used' if used is None else f'used: {used}'}")
    if skipped:
        reasons = ", ".join(f"{count} without a usable {reason}" for reason, count in sorted(skipped.items()))
        notes.append(f": {skipped.total()} rows skipped ({reasons}); first: {first}")
    if repeated:
        notes.append(f": {repeated} rows repeat another one and are left out")
    if unwrapped:
        notes.append(f": another instruction text was taken off {unwrapped} problems")
    return ProblemSet([problem for problem, _ in found], [text for _, text in found], notes)


def _problem(
    where: str, row: Mapping[str, Any], layout: Layout, system_prompt: str | None
) -> tuple[Problem | None, str]:
    """The problem of a row, and "unwrapped" where an instruction text was taken off; or None, and what it lacks."""
    prompt = read_messages(field_of(row, layout.prompt))
    if prompt is None:
        return None, "prompt"
    answer = _answer(field_of(row, layout.answer), layout)
    if not answer:
        return None, "answer"
    unwrapped = ""
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


def _bare(prompt: Messages, context: Any) -> tuple[Messages, str]:
    *before, last = [message for message in prompt if message["role"] != "system"]
    text = bare_problem(last["content"])
    unwrapped = "unwrapped" if text != last["content"] else ""
    if isinstance(context, str) and context.strip():
        text = f"{context.strip()}\n\n{text}"
    return (*before, {"role": "user", "content": text}), unwrapped


def _answer(value: Any, layout: Layout) -> str:
    """The gold answer; empty where there is none."""
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
