import itertools

import pytest

from geoalign.answers import answers_by_class
from geoalign.answers.classes import compared_answers


class Calls:
    """Calls the given pairs equal, and notes what it is asked."""

    def __init__(self, *equal):
        self.pairs, self.asked = {frozenset(pair) for pair in equal}, []

    def equal(self, pairs):
        self.asked += pairs
        return [frozenset(pair) in self.pairs for pair in pairs]


@pytest.mark.parametrize(
    ("answers", "classes"),
    [
        (["0.5", "1/2", "1/2", "0.25"], [r"\frac{1}{2}"] * 3 + ["0.25"]),
        (["2 3/4", "2.75", "2.75"], ["2.75"] * 3),
        (["5 cm", "5", "5", "6"], ["5", "5", "5", "6"]),
        (["5 cm", "5", "5 km"], ["5 cm", "5", "5 km"]),  # which one is meant by 5 cannot be told
        (["x=5", "5", "5"], ["5", "5", "5"]),
        (["x=5", "5", "y=5"], ["x=5", "5", "y=5"]),
        (["10%", "10", "10"], ["10", "10", "10"]),
        (["50%", "0.5", "0.5"], ["0.5"] * 3),
        (["0.5%", "0.5", "0.5"], [r"0.5\%", "0.5", "0.5"]),
        (["50%", "0.5", "50", "50"], ["50", "0.5", "50", "50"]),
        ([None, "", "7"], [None, None, "7"]),
    ],
)  # fmt: skip
def test_equal_answers_of_a_group_are_one_text(answers, classes):
    assert answers_by_class(answers, [0] * len(answers)) == classes


def test_groups_do_not_mix():
    assert answers_by_class(["0.5", "1/2", "1/2"], ["a", "a", "b"]) == ["0.5", "0.5", r"\frac{1}{2}"]


def test_only_undecided_pairs_are_asked_and_the_most_frequent_spelling_stands_for_its_class():
    calls = Calls(("x+1", "1+x"))
    answers = ["1+x", "x+1", "x+1", "7", "8", "A", "B", "even", "odd", "10%", "x=2", "y=2"]
    found = answers_by_class(answers, [0] * len(answers), calls)
    assert found[:3] == ["x+1"] * 3
    assert found[3:] == ["7", "8", "A", "B", "even", "odd", r"10\%", "x=2", "y=2"]
    decided = {"A", "B", "even", "odd", r"10\%"}
    assert calls.asked
    assert not any(decided & set(pair) or set(pair) in ({"7", "8"}, {"x=2", "y=2"}) for pair in calls.asked)


def test_the_order_of_rows_makes_no_difference():
    answers = ["1+x", "x+1", "0.5", "1/2", "5 cm"]
    for order in itertools.permutations(answers):
        found = answers_by_class(order, [0] * 5, Calls(("x+1", "1+x")))
        assert dict(zip(order, found, strict=True)) == dict(
            zip(answers, ["1+x", "1+x", "0.5", "0.5", "5 cm"], strict=True)
        )


def test_a_group_with_two_answers_of_which_nobody_can_tell_is_in_doubt():
    class Unsure:
        def equal(self, pairs):
            return [None] * len(pairs)

    # Two sums in "a"; two numbers in "b", on which their texts decide; a lone sum in "c".
    found = compared_answers(["x+1", "1+x", "7", "8", "x+1"], ["a", "a", "b", "b", "c"], Unsure())
    assert found.undecided == [True, True, False, False, False]
    assert found.spelling == ["x+1", "1+x", "7", "8", "x+1"]
