"""The six mathematics benchmarks of the paper: what they are called, how large they are, where the hub has them; and
sets of a user's own, under any other name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from geoalign.errors import ConfigError
from geoalign.text import quote


@dataclass(frozen=True)
class Benchmark:
    """One evaluation set of the paper's mathematics track (appendix, "Evaluation and Metrics").

    `problems`: row counts of its copies; `hub`: ids on the Hugging Face hub, the usual one first; `samples` per problem
    for avg@k, `pass_samples` for pass@k; `also_called`: names in lower case in files with several sets.
    """

    name: str
    title: str
    problems: tuple[int, ...]
    hub: tuple[str, ...]
    samples: int = 1
    pass_samples: int | None = None
    also_called: tuple[str, ...] = ()


_ALL = (
    Benchmark(
        "aime24", "AIME24", (30,), ("HuggingFaceH4/aime_2024@train", "math-ai/aime24@test"), samples=8, pass_samples=64,
        also_called=("aime2024", "aime-2024", "aime-2024-30", "aime_2024"),
    ),
    Benchmark(
        "aime25", "AIME25", (30,), ("math-ai/aime25@test",), samples=8, pass_samples=64,
        also_called=("aime2025", "aime-2025", "aime-2025-30", "aime_2025"),
    ),
    Benchmark(
        "amc23", "AMC23", (40,), ("math-ai/amc23@test",), samples=4, pass_samples=32,
        also_called=("amc2023", "amc-2023", "amc-23"),
    ),
    Benchmark("math500", "MATH-500", (500,), ("HuggingFaceH4/MATH-500@test",), also_called=("math-500", "math_500")),
    Benchmark(
        "minerva", "Minerva", (272,), ("math-ai/minervamath@test",),
        also_called=("minerva_math", "minervamath", "minerva-math"),
    ),
    Benchmark(
        # 675 in the copy of Qwen2.5-Math's evaluation; 674 in the copies on the hub.
        "olympiadbench", "OlympiadBench", (675, 674),
        ("Hothan/OlympiadBench:OE_TO_maths_en_COMP@train", "math-ai/olympiadbench@test"),
        also_called=("olympiad_bench", "olympiad-bench", "olympiad"),
    ),
)  # fmt: skip

BENCHMARKS: Mapping[str, Benchmark] = MappingProxyType({benchmark.name: benchmark for benchmark in _ALL})


def benchmark_named(name: str) -> Benchmark:
    """The benchmark of this name; ConfigError with the known ones where there is none."""
    if name not in BENCHMARKS:
        raise ConfigError(f"benchmark: expected one of {', '.join(BENCHMARKS)}, got {quote(name)}")
    return BENCHMARKS[name]


# Names of sets become names of folders.
SET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
# What the results call the mean over the benchmarks.
AVERAGE = "average"


def parse_benchmark(text: str) -> tuple[Benchmark, str]:
    """A benchmark and its file or hub id from `NAME=PATH_OR_ID`: nothing is loaded from the network unasked.

    A name that is none of the paper's is a set of the user's own, with one response per problem.
    """
    name, equals, path = (part.strip() for part in text.partition("="))
    benchmark = BENCHMARKS.get(name) or Benchmark(name, title=name, problems=(), hub=())
    if equals and path and SET_NAME.fullmatch(name):
        check_set_name("--benchmark", name)
        return benchmark, path
    if name in BENCHMARKS:
        raise ConfigError(
            f"benchmark {name}: expected {name}=FILE or a hub id such as {name}={benchmark.hub[0]}, got {quote(text)}"
        )
    raise ConfigError(
        f"--benchmark: expected NAME=FILE or NAME=HUB_ID, with one of {', '.join(BENCHMARKS)} or a name of your own "
        f"(letters, digits, dots, _ and -), got {quote(text)}"
    )


def parse_dialogue(text: str) -> tuple[str, str]:
    """The name of a set of dialogues and its file or hub id, from `NAME=PATH_OR_ID`."""
    name, equals, path = (part.strip() for part in text.partition("="))
    if not equals or not path or not SET_NAME.fullmatch(name):
        raise ConfigError(
            f"--dialogue: expected NAME=PATH_OR_ID with letters and digits in the name, got {quote(text)}"
        )
    if name in BENCHMARKS:
        raise ConfigError(f"--dialogue: expected a name that no benchmark has, got {quote(name)}")
    check_set_name("--dialogue", name)
    return name, path


def check_set_name(option: str, name: str) -> None:
    """Raises ConfigError for a name that stands for something else, or nearly does."""
    folded = name.casefold()
    if folded == AVERAGE:
        raise ConfigError(
            f"{option} {name}: {AVERAGE} is what the results call the mean over all benchmarks: take another name"
        )
    for benchmark in BENCHMARKS.values():
        if name != benchmark.name and folded in (benchmark.name, *benchmark.also_called):
            raise ConfigError(
                f"{option} {name}: the paper's {benchmark.title} is called {benchmark.name} here: write "
                f"{benchmark.name}=..., or take another name for a set of your own"
            )
