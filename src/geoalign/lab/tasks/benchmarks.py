"""The paper's six mathematics benchmarks, loaded by their name and a file or hub id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from geoalign.lab.config.benchmarks import Benchmark, benchmark_named
from geoalign.lab.config.tasks import MATH_SYSTEM_PROMPT
from geoalign.lab.tasks.base import Problem
from geoalign.lab.tasks.problems import Reading, joined, read_problems


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

    Raises:
        ConfigError: no such benchmark; a source that cannot be read.
        InputError: an unknown layout, no usable row, or several sets without this one.
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
