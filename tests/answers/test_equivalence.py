import pytest

from geoalign.answers import answers_by_class, equivalence
from geoalign.answers.classes import compared_answers
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


class Machine:
    """Says the same of every pair, and notes what it is asked."""

    def __init__(self, outcome):
        self.outcome = outcome
        self.asked = []

    def compare(self, pairs):
        self.asked += pairs
        return [self.outcome] * len(pairs)


def sums(count):
    return [(f"x+{number}", f"{number}+x") for number in range(count)]


def test_what_the_time_does_not_suffice_for_is_neither_equal_nor_different(monkeypatch):
    machine = Machine("correct")
    late = EqualAnswers(machine, most_seconds=0.0)
    assert late.equal([("x+1", "1+x"), ("7", "8")]) == [None, False]
    assert machine.asked == []
    assert late.counters == {"compared": 1, "equal": 0, "undecided": 1}
    assert late.undecided_because[equivalence.OUT_OF_TIME] == 1


def test_all_calls_of_a_batch_share_its_time_and_the_next_batch_has_its_own(monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(equivalence.time, "monotonic", lambda: next(clock))
    # Each question takes a second of this clock.
    limited = EqualAnswers(Machine("wrong"), most_seconds=2.0)
    assert [limited.equal([pair]) for pair in sums(4)] == [[False], [False], [None], [None]]
    limited.renew()
    assert limited.equal([sums(4)[3]]) == [False]


def test_an_answer_that_took_too_long_is_not_asked_about_again():
    machine = Machine("timeouts")
    stuck = EqualAnswers(machine)
    answers = [f"2^{{n!}}+{letter}" for letter in "abcdefghijklmnopqrstuvwx"]
    found = compared_answers(answers, [0] * 24, stuck)
    assert found.undecided == [True] * 24
    # Of 276 pairs: the first answer with 16 others, which are asked at once, and of the 7 that are left one with the
    # others.
    assert len(machine.asked) == 16 + 6
    assert stuck.undecided_because[equivalence.TIMED_OUT] >= 16 + 6


class SlowOn(Machine):
    """Takes too long for pairs with one of some answers, and calls the others different."""

    def __init__(self, *slow):
        super().__init__("wrong")
        self.slow = slow

    def compare(self, pairs):
        self.asked += pairs
        return ["timeouts" if any(answer in pair for answer in self.slow) else "wrong" for pair in pairs]


def test_a_rare_answer_that_takes_too_long_leaves_the_frequent_one_to_be_compared():
    machine = SlowOn("2^{n!}")
    stuck = EqualAnswers(machine)
    assert stuck.equal([("x+1", "2^{n!}")]) == [None]
    assert stuck.equal([("x+1", "x+2"), ("x+2", "2^{n!}")]) == [False, None]
    # The slow answer itself was asked about once.
    assert sum("2^{n!}" in pair for pair in machine.asked) == 1


def test_a_frequent_answer_that_takes_too_long_is_given_up_after_two_others():
    machine = SlowOn("2^{n!}")
    stuck = EqualAnswers(machine)
    found = [stuck.equal([("2^{n!}", other)]) for other in ("x+1", "x+2", "x+3")]
    assert found == [[None]] * 3
    assert len(machine.asked) == 2
    stuck.renew()
    stuck.equal([("2^{n!}", "x+3")])
    assert len(machine.asked) == 3


def test_texts_of_a_known_pair_are_not_read_again(monkeypatch):
    known = EqualAnswers(Machine("correct"))
    assert known.equal([("x+1", "1+x")]) == [True]
    monkeypatch.setattr(equivalence, "outcome_by_text", lambda gold, answer: pytest.fail("read again"))
    assert known.equal([("x+1", "1+x")]) == [True]


def test_a_pair_that_is_too_long_counts_once():
    found = EqualAnswers(Machine("correct"))
    long = ("x+" * 600 + "1", "1+x")
    assert found.equal([long]) == found.equal([long]) == [None]
    assert found.counters == {"compared": 1, "equal": 0, "undecided": 1}


@pytest.mark.parametrize("reason", ["not_installed", "failed", "too_long"])
def test_why_a_pair_stays_undecided(monkeypatch, reason):
    monkeypatch.setattr(equivalence, "math_verify_is_installed", lambda: False)
    found = EqualAnswers(None if reason == "not_installed" else Machine("errors"))
    answer = "x+" * 600 + "1" if reason == "too_long" else "x+1"
    assert found.equal([(answer, "1+x"), ("0.5", "1/2")]) == [None, True]
    assert +found.undecided_because == {reason: 1}
