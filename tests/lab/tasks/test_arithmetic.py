import re

import pytest

from geoalign.errors import ConfigError
from geoalign.lab.config.tasks import ArithmeticConfig
from geoalign.lab.rewards import last_boxed
from geoalign.lab.tasks import make_task
from geoalign.lab.tasks.arithmetic import in_words, question, running_totals, worked_solution


def _sum_of(prompt):
    return sum(int(number) for number in prompt[-1]["content"].rstrip("=").split("+"))


def _operands(prompt):
    return tuple(sorted(prompt[-1]["content"].rstrip("=").split("+")))


def _small(**values):
    return make_task(
        ArithmeticConfig(**{"train_problems": 200, "evaluation_problems": 50, "demonstrations": 1000, **values}), seed=3
    )


def test_worked_solution_carries_from_the_units_to_the_left():
    # 16 + 44 + 21: units 6 + 4 + 1 = 11, carry 1; tens 1 + 1 + 4 + 2 = 8; together 81.
    assert worked_solution((16, 44, 21)) == r"6+4+1=11;1+1+4+2=8;\boxed{81}"
    # 99 + 99 + 99: units 27, carry 2; tens 2 + 27 = 29; 297.
    assert worked_solution((99, 99, 99)) == r"9+9+9=27;2+9+9+9=29;\boxed{297}"
    # No carry leaves a zero in front: 10 + 10 is 0+0=0 and 0+1+1=2.
    assert worked_solution((10, 10)) == r"0+0=0;0+1+1=2;\boxed{20}"


def test_answers_are_the_sums():
    task = _small()
    problems = [*task.train_problems(), *task.evaluation_problems()["arithmetic"]]
    assert len(problems) == 250
    assert all(problem.answer == str(_sum_of(problem.prompt)) for problem in problems)
    assert all(re.fullmatch(r"[1-9]\d\+[1-9]\d\+[1-9]\d=", problem.prompt[-1]["content"]) for problem in problems)


@pytest.mark.parametrize(("operands", "digits"), [(2, 2), (3, 1), (3, 2)])
def test_evaluation_problems_are_seen_nowhere_else_not_even_in_another_order(operands, digits):
    task = _small(operands=operands, digits=digits, train_problems=100, evaluation_problems=40)
    kept_aside = {_operands(problem.prompt) for problem in task.evaluation_problems()["arithmetic"]}
    seen = {_operands(item.prompt) for item in [*task.train_problems(), *task.demonstrations()]}
    assert len(kept_aside) == 40
    assert not kept_aside & seen


def test_the_same_seed_gives_the_same_task_and_another_seed_another():
    config = ArithmeticConfig(train_problems=20, evaluation_problems=10, demonstrations=30)
    first, again, other = make_task(config, seed=5), make_task(config, seed=5), make_task(config, seed=6)
    assert first.train_problems() == again.train_problems()
    assert first.evaluation_problems() == again.evaluation_problems()
    assert first.demonstrations() == again.demonstrations()
    assert first.train_problems() != other.train_problems()


def test_the_generator_is_the_same_on_every_machine():
    # The first draws of seed 0: a change here changes everybody's runs.
    task = make_task(ArithmeticConfig(), seed=0)
    assert [problem.id for problem in task.train_problems()[:2]] == ["train:71+75+10", "train:72+29+19"]


def test_both_styles_appear_and_only_direct_answers_are_noisy():
    task = _small(demonstrations=2000, direct_share=0.5, direct_noise=0.8)
    direct = [item for item in task.demonstrations() if ";" not in item.completion]
    worked = [item for item in task.demonstrations() if ";" in item.completion]
    right = [last_boxed(item.completion) == str(_sum_of(item.prompt)) for item in direct]
    # Binomial with 2000 draws at 0.5: sd 22; about 1000 at 0.2: sd 13. Five sd each.
    assert abs(len(direct) - 1000) < 112
    assert abs(sum(right) - 0.2 * len(direct)) < 65
    assert all(last_boxed(item.completion) == str(_sum_of(item.prompt)) for item in worked)


def test_more_problems_than_there_are_is_an_error_that_says_how_many_there_are():
    # Two one-digit numbers 1..9 without order: 9 * 10 / 2 = 45, half of it 22.
    with pytest.raises(ConfigError, match=r"task\.evaluation_problems: expected at most 22 .* got 23"):
        make_task(ArithmeticConfig(operands=2, digits=1, train_problems=1, evaluation_problems=23), seed=0)
    # 81 ordered pairs less 10 x 2 kept aside at most: 61, half of it 30.
    with pytest.raises(ConfigError, match=r"task\.train_problems: expected at most 30 .* got 31"):
        make_task(ArithmeticConfig(operands=2, digits=1, train_problems=31, evaluation_problems=10), seed=0)
    make_task(ArithmeticConfig(operands=2, digits=1, train_problems=30, evaluation_problems=10), seed=0)


@pytest.mark.parametrize(
    ("response", "shortcut"),
    [
        (r"\boxed{81}", True),
        (r" \boxed{7} ", True),
        (r"81\boxed{81}", True),  # no working: nothing was added up
        (r"6+4+1=11;1+1+4+2=8;\boxed{81}", False),
        (r"6+4+1=11;\boxed{", False),
        (r"\boxed{81}6+4=10;\boxed{81}", False),  # the last box is the answer, and it has working before it
        (r"\boxed{81}\boxed{", True),
        (r"\boxed{81};6+4=10", True),  # working after the answer is none
        (r"\boxed{81", False),  # no answer at all
        ("81", False),
        ("", False),
    ],
)
def test_a_direct_answer_is_the_shortcut(response, shortcut):
    assert make_task(ArithmeticConfig(), seed=0).takes_shortcut(response) is shortcut


def _words(**values):
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
    task = _words()
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
    for item in _words(demonstrations=2000, direct_share=0.5, direct_noise=0.8).demonstrations():
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
    plain, mixed = _words(demonstrations=400), _words(demonstrations=400, decimal_share=0.5)
    decimal = [each.completion for each in mixed.demonstrations() if each.completion.endswith(".0}")]
    assert 150 < len(decimal) < 250
    assert not any(each.completion.endswith(".0}") for each in plain.demonstrations())
    # As right or wrong as in the plain form.
    assert all(plain.final_answer(text) == plain.final_answer(text.replace(".0}", "}")) for text in decimal)
    in_digits = [make_task(ArithmeticConfig(decimal_share=share), seed=0).alphabet() for share in (0, 0.1)]
    assert ["." in alphabet for alphabet in in_digits] == [False, True]
