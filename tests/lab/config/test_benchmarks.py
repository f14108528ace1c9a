import pytest

from geoalign.errors import ConfigError
from geoalign.lab.config.benchmarks import BENCHMARKS, benchmark_named, parse_benchmark


def test_the_six_benchmarks_of_the_paper():
    # Appendix, "Evaluation and Metrics": 8 generations for AIME, 4 for AMC23; the figure of pass@k draws 64, 64 and 32.
    samples = {name: (benchmark.samples, benchmark.pass_samples) for name, benchmark in BENCHMARKS.items()}
    assert samples == {
        "aime24": (8, 64),
        "aime25": (8, 64),
        "amc23": (4, 32),
        "math500": (1, None),
        "minerva": (1, None),
        "olympiadbench": (1, None),
    }
    assert [benchmark.problems[0] for benchmark in BENCHMARKS.values()] == [30, 30, 40, 500, 272, 675]


def test_no_name_stands_for_two_benchmarks():
    names = [name for benchmark in BENCHMARKS.values() for name in (benchmark.name, *benchmark.also_called)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)


def test_a_name_with_a_place():
    benchmark, place = parse_benchmark("aime24=data/a=b.jsonl ")
    assert (benchmark.title, place) == ("AIME24", "data/a=b.jsonl")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aime=x.jsonl", r"expected one of aime24, .*, got 'aime'"),
        ("=x.jsonl", "got ''"),
        ("math500", r"expected math500=FILE or a hub id such as math500=HuggingFaceH4/MATH-500@test"),
        ("math500= ", "expected math500=FILE"),
    ],
)
def test_what_is_no_benchmark_with_a_place(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_benchmark(text)


def test_an_unknown_name():
    with pytest.raises(ConfigError, match="got 'gsm8k'"):
        benchmark_named("gsm8k")
