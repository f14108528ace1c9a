"""The six mathematics benchmarks of the paper: what they are called, how large they are, where the hub has them."""

from __future__ import annotations

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


def parse_benchmark(text: str) -> tuple[Benchmark, str]:
    """A benchmark and its file or hub id from `NAME=PATH_OR_ID`: nothing is loaded from the network unasked."""
    name, equals, path = text.partition("=")
    benchmark = benchmark_named(name.strip())
    if not equals or not path.strip():
        raise ConfigError(
            f"benchmark {benchmark.name}: expected {benchmark.name}=FILE or a hub id such as "
            f"{benchmark.name}={benchmark.hub[0]}, got {quote(text)}"
        )
    return benchmark, path.strip()
