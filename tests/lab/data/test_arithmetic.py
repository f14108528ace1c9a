import re
from itertools import accumulate

import pytest

from geoalign.answers.boxed import last_boxed
from geoalign.errors import ConfigError
from geoalign.lab.data.arithmetic import answers_at_once, number_in_words, question, running_totals, worked_solution
from geoalign.lab.data.settings import ArithmeticConfig
from geoalign.lab.data.tasks import make_task


def small(seed=3, **values):
    given = {"train_problems": 200, "evaluation_problems": 50, "demonstrations": 1000, **values}
    return make_task(ArithmeticConfig(**given), seed=seed)


def numbers_of(prompt):
    text = prompt[-1]["content"]
    for number in range(99, -1, -1):
        text = text.replace(number_in_words(number), str(number))
    return [int(number) * (-1 if minus else 1) for minus, number in re.findall(r"(minus )?(\d+)", text)]


def test_solutions_and_questions_by_hand():
    # 16 + 44 + 21: units 6 + 4 + 1 = 11, carry 1; tens 1 + 1 + 4 + 2 = 8; together 81.
    assert worked_solution((16, 44, 21)) == r"6+4+1=11;1+1+4+2=8;\boxed{81}"
    # 99 + 99 + 99: units 27, carry 2; tens 2 + 27 = 29; 297.
    assert worked_solution((99, 99, 99)) == r"9+9+9=27;2+9+9+9=29;\boxed{297}"
    # No carry leaves a zero in front: 10 + 10 is 0+0=0 and 0+1+1=2.
    assert worked_solution((10, 10)) == r"0+0=0;0+1+1=2;\boxed{20}"
    # 42 + 17 = 59, 59 - 5 = 54.
    assert question((42, 17, -5)) == "What is forty-two plus seventeen minus five?"
    assert running_totals((42, 17, -5)) == r"42 + 17 = 59, 59 - 5 = 54. \boxed{54}"
    assert running_totals((30, -30)) == r"30 - 30 = 0. \boxed{0}"
    words = {0: "zero", 9: "nine", 10: "ten", 19: "nineteen", 20: "twenty", 21: "twenty-one", 99: "ninety-nine"}
    assert {number: number_in_words(number) for number in words} == words


@pytest.mark.parametrize("wording", ["digits", "words"])
def test_answers_are_right_and_of_the_demonstrations_only_direct_ones_are_not(wording):
    task = small(wording=wording, demonstrations=2000, direct_share=0.5, direct_noise=0.8)
    problems = [*task.train_problems, *task.evaluation_problems["arithmetic"]]
    assert len(problems) == 250
    for problem in problems:
        numbers = numbers_of(problem.prompt)
        assert problem.id.partition(":")[2] == "+".join(map(str, numbers))
        assert problem.answer == str(sum(numbers))
        assert min(accumulate(numbers)) >= 0  # no running total is below zero
    if wording == "words":
        # Two signs a problem; those with a negative running total are drawn again: a little under half are minus.
        assert 100 < sum(number < 0 for problem in problems for number in numbers_of(problem.prompt)) < 250
    right = {True: [], False: []}
    for item in task.demonstrations:
        answer = str(sum(numbers_of(item.prompt)))
        right[item.completion.startswith("\\boxed")].append(last_boxed(item.completion) == answer)
    assert all(right[False])
    # Binomial with 2000 draws at 0.5: sd 22; about 1000 at 0.2: sd 13. Five sd each.
    assert abs(len(right[True]) - 1000) < 112
    assert abs(sum(right[True]) - 0.2 * len(right[True])) < 65


@pytest.mark.parametrize(("operands", "digits"), [(2, 2), (3, 1), (3, 2)])
def test_evaluation_problems_are_seen_nowhere_else_not_even_in_another_order(operands, digits):
    task = small(operands=operands, digits=digits, train_problems=100, evaluation_problems=40)

    def sums_in(items):
        """The numbers of each problem, whatever their order."""
        return {tuple(sorted(numbers_of(item.prompt))) for item in items}

    kept_aside = sums_in(task.evaluation_problems["arithmetic"])
    seen = sums_in([*task.train_problems, *task.demonstrations])
    assert len(kept_aside) == 40
    assert not kept_aside & seen


def test_the_seed_decides_and_the_generator_is_the_same_on_every_machine():
    first = small(seed=5)
    again = small(seed=5)
    other = small(seed=6)
    for name in ("train_problems", "evaluation_problems", "demonstrations"):
        assert getattr(first, name) == getattr(again, name) != getattr(other, name)
    # The first draws of seed 0: a change here changes everybody's runs.
    task = make_task(ArithmeticConfig(), seed=0)
    assert [problem.id for problem in task.train_problems[:2]] == ["train:71+75+10", "train:72+29+19"]


@pytest.mark.parametrize(
    ("train", "evaluation", "message"),
    [
        # Two one-digit numbers 1..9 without order: 9 * 10 / 2 = 45, half of it 22.
        (1, 23, r"task\.evaluation_problems: expected at most 22 .* got 23"),
        # 81 ordered pairs less 10 x 2 kept aside at most: 61, half of it 30.
        (31, 10, r"task\.train_problems: expected at most 30 .* got 31"),
    ],
)
def test_more_problems_than_there_are_is_an_error_that_says_how_many_there_are(train, evaluation, message):
    with pytest.raises(ConfigError, match=message):
        small(operands=2, digits=1, train_problems=train, evaluation_problems=evaluation)
    small(operands=2, digits=1, train_problems=30, evaluation_problems=10)


@pytest.mark.parametrize(
    ("response", "shortcut"),
    [
        (r" \boxed{7} ", True),
        (r"81\boxed{81}", True),  # no working: nothing was added up
        (r"6+4+1=11;1+1+4+2=8;\boxed{81}", False),
        (r"\boxed{81}6+4=10;\boxed{81}", False),  # the last box is the answer, and it has working before it
        (r"\boxed{81}\boxed{", True),
        (r"\boxed{81};6+4=10", True),  # working after the answer is none
        (r"\boxed{81", False),  # no answer at all
        ("81", False),
    ],
)
def test_a_direct_answer_is_the_shortcut(response, shortcut):
    assert answers_at_once(response) is shortcut


def test_a_share_of_the_demonstrations_writes_the_answer_in_another_form():
    def decimals_of(task):
        completions = [demonstration.completion for demonstration in task.demonstrations]
        return [completion for completion in completions if completion.endswith(".0}")]

    plain = small(demonstrations=400, decimal_share=0.0)
    mixed = small(demonstrations=400, decimal_share=0.5)
    decimal = decimals_of(mixed)
    assert 150 < len(decimal) < 250
    assert not decimals_of(plain)
    # As right or wrong as in the plain form.
    assert all(plain.final_answer(text) == plain.final_answer(text.replace(".0}", "}")) for text in decimal)
    assert "." not in plain.alphabet
    assert "." in mixed.alphabet
