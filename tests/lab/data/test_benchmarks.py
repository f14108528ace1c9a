from geoalign.lab.data.benchmarks import BENCHMARKS


def test_no_name_stands_for_two_benchmarks():
    names = [name for benchmark in BENCHMARKS.values() for name in benchmark.names]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)
