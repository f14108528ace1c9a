import pytest

from geoalign.errors import ConfigError
from geoalign.lab.data.benchmarks import BENCHMARKS, parse_benchmark


def test_no_name_stands_for_two_benchmarks():
    names = [name for benchmark in BENCHMARKS.values() for name in (benchmark.name, *benchmark.also_called)]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)


def test_a_name_with_a_place():
    benchmark, place = parse_benchmark("aime24=data/a=b.jsonl ")
    assert (benchmark.title, place) == ("AIME24", "data/a=b.jsonl")


def test_a_set_of_ones_own_is_answered_once():
    benchmark, place = parse_benchmark("mine=x.csv")
    assert (benchmark.name, benchmark.title, benchmark.samples, place) == ("mine", "mine", 1, "x.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("aime", r"with one of aime24, .* or a name of your own .*, got 'aime'"),
        ("=x.jsonl", "got '=x.jsonl'"),
        ("math500", r"expected math500=FILE or a hub id such as math500=HuggingFaceH4/MATH-500@test"),
        ("math500= ", "expected math500=FILE"),
    ],
)
def test_what_is_no_benchmark_with_a_place(text, message):
    with pytest.raises(ConfigError, match=message):
        parse_benchmark(text)
