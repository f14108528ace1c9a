"""Problems with gold answers, read from a file or the hub; what was skipped or repeated is counted.

The paper's six mathematics benchmarks are loaded by their name and a file or hub id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, Literal

from geoalign.errors import InputError
from geoalign.lab.config.benchmarks import Benchmark, benchmark_named
from geoalign.lab.config.tasks import MATH_SYSTEM_PROMPT
from geoalign.lab.tasks.base import Problem
from geoalign.lab.tasks.problem_rows import Fields, Layout, UnusableRowError, read_problem, recognise
from geoalign.lab.tasks.rows import field_of
from geoalign.lab.tasks.sources import Row, rows_of

# So many rows are looked at to recognise a layout.
_HEAD = 100


@dataclass(frozen=True)
class Reading:
    """How a set of problems is to be read; None for a field: recognised.

    `inherited`: the fields are those of another file, and count only where this file has them. `select`: only the rows
    of these sets, in lower case, in a file that holds several; `select_must_apply`: a file without sets is an error.
    """

    prompt_field: str | None = None
    answer_field: str | None = None
    answer_pattern: str | None = None
    id_field: str | None = None
    demonstration_field: str | None = None
    system_prompt: str | None = None
    limit: int | None = None
    on_bad_row: Literal["skip", "error"] = "skip"
    inherited: bool = False
    select: tuple[str, ...] | None = None
    select_must_apply: bool = False


@dataclass
class ProblemSet:
    """What was read from one source: problems in their order, with their demonstrations where asked for."""

    source: str
    problems: list[Problem] = field(default_factory=list)
    demonstrations: list[str | None] = field(default_factory=list)
    layout: Layout | None = None
    skipped: Counter[str] = field(default_factory=Counter)
    first_skipped: str = ""
    repeated: int = 0
    unwrapped: int = 0
    sets: Counter[str] = field(default_factory=Counter)
    selected: tuple[str, ...] | None = None
    clash: str = ""

    def notes(self) -> list[str]:
        """Lines on how the source was read and what was left out; none where there is nothing to say."""
        lines = []
        if self.layout is not None:
            lines.append(f": read as {self.layout}")
        if len(self.sets) > 1:
            counts = ", ".join(f"{name} {count}" for name, count in self.sets.items())
            used = "all are used" if self.selected is None else f"used: {', '.join(self.selected)}"
            lines.append(f": holds several sets ({counts}); {used}")
        if self.skipped:
            reasons = ", ".join(f"{count} without a usable {reason}" for reason, count in sorted(self.skipped.items()))
            lines.append(f": {self.skipped.total()} rows skipped ({reasons}); first: {self.first_skipped}")
        if self.repeated:
            lines.append(f": {self.repeated} rows repeat a row of the same name and are left out")
        if self.clash:
            lines.append(f", {self.clash}; problems are named by their row")
        if self.unwrapped:
            lines.append(f": another instruction text was taken off {self.unwrapped} problems")
        return [self.source + line for line in lines]


def read_problems(source: str, how: Reading) -> ProblemSet:
    """The problems of a local file or a data set on the hub.

    Where the layout is recognised, a prompt is the bare problem behind `system_prompt`; where `prompt_field` is given,
    it is the content of that field, and a system message of its own stays.
    """
    rows = rows_of(source)
    head = list(islice(rows, _HEAD))
    if not head:
        raise InputError(f"{source}: expected at least one usable row; got no row at all")
    read = ProblemSet(source)
    fields = _fields(read, [row for _, row in head], how)
    _read(read, chain(head, rows), fields, how)
    _check_selection(read, fields, how)
    if not read.problems:
        raise InputError(f"{source}: expected at least one usable row; {read.first_skipped or 'got none'}")
    return read


def _fields(read: ProblemSet, head: Sequence[Mapping[str, Any]], how: Reading) -> Fields:
    prompt, answer, pattern = how.prompt_field, how.answer_field, how.answer_pattern
    if how.inherited and not any(_has(row, prompt) and _has(row, answer) for row in head):
        prompt = answer = pattern = None
    id_given = how.id_field is not None
    if prompt is not None and answer is not None:
        return Fields(prompt, answer, pattern=pattern, id=how.id_field, id_given=id_given)
    layout = read.layout = recognise(read.source, head)
    of_layout = answer is None or answer == layout.answer
    return Fields(
        prompt=prompt or layout.prompt,
        answer=answer or layout.answer,
        boxed=of_layout and layout.boxed and pattern is None,
        pattern=layout.pattern if of_layout and pattern is None else pattern,
        id=how.id_field or layout.id,
        id_given=id_given,
        context=layout.context,
        set_name=layout.set_name,
        bare=prompt is None,
    )


def _has(row: Mapping[str, Any], name: str | None) -> bool:
    return name is None or field_of(row, name) is not None


def _read(read: ProblemSet, rows: Iterator[Row], fields: Fields, how: Reading) -> None:
    named: dict[str, Problem] = {}
    row_names = []
    for where, row in rows:
        if how.limit is not None and len(read.problems) == how.limit:
            break
        if not _wanted(read, row, fields, how):
            continue
        try:
            problem, unwrapped = read_problem(where, row, fields, how.system_prompt)
        except UnusableRowError as error:
            _skip(read, where, error, how)
            continue
        before = named.setdefault(problem.id, problem)
        if before is not problem:
            if fields.id_given:
                raise InputError(
                    f"{read.source}, {where}, field {fields.id}: expected a name of its own, got {problem.id!r} again"
                )
            if (before.prompt, before.answer) == (problem.prompt, problem.answer):
                read.repeated += 1
                continue
            read.clash = read.clash or f"{where}, field {fields.id}: {problem.id!r} names another problem too"
        read.unwrapped += unwrapped
        read.problems.append(problem)
        read.demonstrations.append(_demonstration(read, row, how))
        row_names.append(where)
    if read.clash:
        renamed = zip(row_names, read.problems, strict=True)
        read.problems = [replace(problem, id=row_name) for row_name, problem in renamed]


def _wanted(read: ProblemSet, row: Mapping[str, Any], fields: Fields, how: Reading) -> bool:
    if fields.set_name is None:
        return True
    name = str(field_of(row, fields.set_name))
    read.sets[name] += 1
    return how.select is None or name.lower() in how.select


def _skip(read: ProblemSet, where: str, error: UnusableRowError, how: Reading) -> None:
    if how.on_bad_row == "error":
        raise InputError(f"{read.source}, {where}, {error}") from error
    if not read.skipped:
        read.first_skipped = f"{where}, {error}"
    read.skipped[error.reason] += 1


def _check_selection(read: ProblemSet, fields: Fields, how: Reading) -> None:
    if how.select is None:
        return
    if fields.set_name is None:
        if how.select_must_apply:
            raise InputError(f"{read.source}: expected a file with several sets (`select`), got a layout without them")
        return
    read.selected = tuple(name for name in read.sets if name.lower() in how.select)
    if not read.selected:
        raise InputError(
            f"{read.source}, field {fields.set_name}: expected one of {', '.join(how.select)}, "
            f"got {', '.join(read.sets)}"
        )


def _demonstration(read: ProblemSet, row: Mapping[str, Any], how: Reading) -> str | None:
    if how.demonstration_field is None:
        return None
    value = field_of(row, how.demonstration_field)
    if isinstance(value, str) and value.strip():
        return value
    read.skipped["demonstration"] += 1
    return None


def joined(sets: Sequence[Sequence[Problem]]) -> list[Problem]:
    """The problems of several sources as one set; where there are several, names begin with the source's number."""
    if len(sets) == 1:
        return list(sets[0])
    return [
        replace(problem, id=f"file {number}, {problem.id}")
        for number, problems in enumerate(sets, start=1)
        for problem in problems
    ]


@dataclass(frozen=True)
class BenchmarkSet:
    """A benchmark with its problems (prompts as in the paper, `id` unique) and lines for the person who runs it."""

    benchmark: Benchmark
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


def load_benchmark(
    name: str, sources: str | Sequence[str], *, system_prompt: str | None = MATH_SYSTEM_PROMPT
) -> BenchmarkSet:
    """The benchmark of this name, read from a file or hub id, or from several that make it up (AIME 2025 I and II).

    The layout is recognised; of a file that holds several sets the benchmark's own is taken; rows that repeat a named
    row (DAPO's AIME 2024 has each 32 times) are one problem. A row count other than the expected is a line in `notes`.
    """
    benchmark = benchmark_named(name)
    how = as_benchmark(Reading(system_prompt=system_prompt), benchmark)
    sets = [read_problems(source, how) for source in ((sources,) if isinstance(sources, str) else sources)]
    problems = joined([read.problems for read in sets])
    notes = [note for read in sets for note in read.notes()]
    return BenchmarkSet(benchmark, tuple(problems), (*notes, *size_note(benchmark, len(problems))))


def as_benchmark(how: Reading, benchmark: Benchmark) -> Reading:
    """The reading of a benchmark's set: of a file with several sets only its own, unless another is selected."""
    if how.select is not None:
        return how
    return replace(how, select=(benchmark.name, *benchmark.also_called))


def size_note(benchmark: Benchmark, problems: int) -> list[str]:
    """A line where a benchmark does not have as many problems as expected; none where it has."""
    if problems in benchmark.problems:
        return []
    expected = " or ".join(map(str, benchmark.problems))
    return [f"benchmark {benchmark.name}: {problems} problems, where {benchmark.title} has {expected}"]
