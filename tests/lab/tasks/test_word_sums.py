import re

import pytest

from geoalign.lab.config.tasks import ArithmeticConfig
from geoalign.lab.rewards import last_boxed
from geoalign.lab.tasks import make_task
from geoalign.lab.tasks.arithmetic import in_words, question, running_totals


def _task(**values):
    given = {"train_problems": 200, "evaluation_problems": 50, "demonstrations": 500, "wording": "words", **values}
    return make_task(ArithmeticConfig(**given), seed=3)


def _signed(problem_id):
    return tuple(int(number) for number in problem_id.partition(":")[2].split("+"))


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "zero"), (9, "nine"), (10, "ten"), (19, "nineteen"), (20, "twenty"), (21, "twenty-one"), (99, "ninety-nine")],
)
def test_numbers_in_words(number, words):
    assert in_words(number) == words


def test_a_question_and_its_running_totals():
    # 42 + 17 = 59, 59 - 5 = 54.
    assert question((42, 17, -5)) == "What is forty-two plus seventeen minus five?"
    assert running_totals((42, 17, -5)) == r"42 + 17 = 59, 59 - 5 = 54. \boxed{54}"
    assert running_totals((30, -30)) == r"30 - 30 = 0. \boxed{0}"


def test_answers_are_right_and_no_running_total_is_below_zero():
    task = _task()
    problems = [*task.train_problems(), *task.evaluation_problems()["arithmetic"]]
    subtracted = 0
    for problem in problems:
        numbers = _signed(problem.id)
        assert problem.answer == str(sum(numbers))
        assert problem.prompt[-1]["content"] == question(numbers)
        assert numbers[0] >= 0
        assert sum(numbers[:2]) >= 0
        assert sum(numbers) >= 0
        subtracted += sum(number < 0 for number in numbers)
    # Two signs a problem; those with a negative running total are drawn again, so a little under half are minus.
    assert 0.2 < subtracted / (2 * len(problems)) < 0.5


def test_worked_demonstrations_are_right_and_direct_ones_mostly_wrong():
    worked, direct = [], []
    for item in _task(demonstrations=2000, direct_share=0.5, direct_noise=0.8).demonstrations():
        text = item.prompt[-1]["content"]
        answer = _value(text)
        (direct if item.completion.startswith("\\boxed") else worked).append(last_boxed(item.completion) == str(answer))
    assert all(worked)
    # 0.8 of about 1,000 are wrong: sd 13.
    assert abs(sum(direct) / len(direct) - 0.2) < 0.065


def _value(text):
    of = {in_words(number): number for number in range(100)}
    first, *steps = re.split(r" (plus|minus) ", text.removeprefix("What is ").removesuffix("?"))
    signs = [1 if word == "plus" else -1 for word in steps[::2]]
    return of[first] + sum(sign * of[word] for sign, word in zip(signs, steps[1::2], strict=True))


def test_a_share_of_the_demonstrations_writes_the_answer_in_another_form():
    plain, mixed = _task(demonstrations=400), _task(demonstrations=400, decimal_share=0.5)
    decimal = [each.completion for each in mixed.demonstrations() if each.completion.endswith(".0}")]
    assert 150 < len(decimal) < 250
    assert not any(each.completion.endswith(".0}") for each in plain.demonstrations())
    # As right or wrong as in the plain form.
    assert all(plain.final_answer(text) == plain.final_answer(text.replace(".0}", "}")) for text in decimal)
    in_digits = [make_task(ArithmeticConfig(decimal_share=share), seed=0).alphabet() for share in (0, 0.1)]
    assert ["." in alphabet for alphabet in in_digits] == [False, True]
