import pytest

from geoalign.answers import answers_by_class, equivalence
from geoalign.answers.equivalence import EqualAnswers

pytest.importorskip("math_verify")


@pytest.fixture(scope="module")
def equal():
    found = EqualAnswers()
    yield found
    found.close()


def test_math_verify_joins_what_no_text_does(equal):
    answers = ["x+1", "1+x", "x+2", r"\sqrt{8}", r"2\sqrt{2}", "7"]
    assert answers_by_class(answers, [0] * 6, equal) == ["1+x", "1+x", "x+2", r"2\sqrt{2}", r"2\sqrt{2}", "7"]


def test_equal_answers_fit_each_other_both_ways(equal):
    # An ordered pair fits a list as its gold answer, but a list in that order does not fit the pair.
    assert equal.equal([("1,2", "(2,1)"), ("1,2", "2,1")]) == [False, True]


def test_a_pair_is_compared_once_and_numbers_not_at_all(equal):
    equal.equal([("a+b", "b+a")])
    before = dict(equal.counters)
    assert equal.equal([("a+b", "b+a"), ("7", "8"), ("B", "(C)")]) == [True, False, False]
    assert equal.counters == before


def test_what_is_not_found_out_is_different_and_counted(monkeypatch):
    monkeypatch.setattr(equivalence, "MOST_PAIRS", 1)
    few = EqualAnswers()
    try:
        assert few.equal([("x+1", "1+x"), ("y+1", "1+y")]) == [True, False]
        assert few.counters == {"compared": 2, "equal": 1, "undecided": 1}
    finally:
        few.close()


def test_after_too_many_failures_no_more_is_asked(monkeypatch):
    asked = []

    class Stuck:
        def compare(self, pairs):
            asked.extend(pairs)
            return ["timeouts"] * len(pairs)

    monkeypatch.setattr(equivalence, "MOST_FAILURES", 3)
    monkeypatch.setattr(equivalence, "_AT_A_TIME", 2)
    stuck = EqualAnswers(Stuck())
    assert stuck.equal([(f"x+{n}", f"{n}+x") for n in range(10)]) == [False] * 10
    assert len(asked) == 4
    assert stuck.counters["undecided"] == 10
