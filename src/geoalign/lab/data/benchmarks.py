"""The six mathematics benchmarks of the paper: what they are called, how large they are, where the hub has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Benchmark:
    """One evaluation set of the paper's mathematics track (appendix, "Evaluation and Metrics").

    Attributes:
        problems: row counts of its copies.
        hub: ids on the Hugging Face hub, the usual one first.
        samples: responses to each problem for avg@k.
        pass_samples: responses to each problem for pass@k; None: as `samples`.
        also_called: names in lower case, as files with several sets have them.
    """

    name: str
    title: str
    problems: tuple[int, ...]
    hub: tuple[str, ...]
    samples: int = 1
    pass_samples: int | None = None
    also_called: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it has, in lower case."""
        return (self.name, *self.also_called)


_ALL = (
    Benchmark(
        name="aime24",
        title="AIME24",
        problems=(30,),
        hub=("HuggingFaceH4/aime_2024@train", "math-ai/aime24@test"),
        samples=8,
        pass_samples=64,
        also_called=("aime2024", "aime-2024", "aime-2024-30", "aime_2024"),
    ),
    Benchmark(
        name="aime25",
        title="AIME25",
        problems=(30,),
        hub=("math-ai/aime25@test",),
        samples=8,
        pass_samples=64,
        also_called=("aime2025", "aime-2025", "aime-2025-30", "aime_2025"),
    ),
    Benchmark(
        name="amc23",
        title="AMC23",
        problems=(40,),
        hub=("math-ai/amc23@test",),
        samples=4,
        pass_samples=32,
        also_called=("amc2023", "amc-2023", "amc-23"),
    ),
    Benchmark(
        name="math500",
        title="MATH-500",
        problems=(500,),
        hub=("HuggingFaceH4/MATH-500@test",),
        also_called=("math-500", "math_500"),
    ),
    Benchmark(
        name="minerva",
        title="Minerva",
        problems=(272,),
        hub=("math-ai/minervamath@test",),
        also_called=("minerva_math", "minervamath", "minerva-math"),
    ),
    Benchmark(
        name="olympiadbench",
        title="OlympiadBench",
        # 675 in the copy of Qwen2.5-Math's evaluation; 674 in the copies on the hub.
        problems=(675, 674),
        hub=("Hothan/OlympiadBench:OE_TO_maths_en_COMP@train", "math-ai/olympiadbench@test"),
        also_called=("olympiad_bench", "olympiad-bench", "olympiad"),
    ),
)

# By the name that settings and the command line give them; a set of any other name is the user's own.
BENCHMARKS: Mapping[str, Benchmark] = {benchmark.name: benchmark for benchmark in _ALL}
