"""The built-in task `arithmetic`: small sums, answered at once or with working, in digits or in words."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from itertools import accumulate
from random import Random

from geoalign.answers import final_answer
from geoalign.answers.boxed import last_boxed
from geoalign.answers.messages import Messages
from geoalign.errors import ConfigError
from geoalign.lab.data.settings import ArithmeticConfig
from geoalign.lab.data.task import Demonstration, Problem, Task

SYSTEM_PROMPT = "Answer in \\boxed{}."

_DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_TEENS = [f"{stem}teen" for stem in ("thir", "four", "fif", "six", "seven", "eigh", "nine")]
_SMALL = [*_DIGITS, "ten", "eleven", "twelve", *_TEENS]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

_Numbers = tuple[int, ...]


def arithmetic_task(config: ArithmeticConfig, *, seed: int) -> Task:
    """Sums such as `16+44+21=`, or in words, in an order fixed by the seed.

    No evaluation problem is a training problem or a demonstration, not even with its numbers in another order.
    Demonstrations answer at once (`\\boxed{81}`) or with working (`worked_solution`, `running_totals`). Of the direct
    ones a share (`direct_noise`) is off by a little. A share of all (`decimal_share`) writes the answer in a form that
    is as right and another text: `\\boxed{81.0}`. In words a number that is subtracted is negative in a problem's id.
    """
    _check_room(config)

    def random(purpose: str) -> Random:
        # A generator for each purpose: more demonstrations, say, leave the problems as they are.
        return Random(f"arithmetic/{seed}/{purpose}")

    # The numbers of each evaluation problem, by the same numbers in order.
    kept_aside: dict[_Numbers, _Numbers] = {}
    evaluation_random = random("evaluation")
    while len(kept_aside) < config.evaluation_problems:
        numbers = _draw(config, evaluation_random)
        kept_aside.setdefault(tuple(sorted(numbers)), numbers)

    # A dict keeps the order of the draws.
    trained: dict[_Numbers, None] = {}
    train_random = random("train")
    while len(trained) < config.train_problems:
        trained[_draw(config, train_random, kept_aside)] = None

    demonstration_random = random("demonstrations")
    demonstrations = [_demonstration(config, demonstration_random, kept_aside) for _ in range(config.demonstrations)]
    alphabet = None
    if config.wording == "digits":
        alphabet = "".join(sorted(set("0123456789+=;" + boxed("") + ("." if config.decimal_share else ""))))
    return Task(
        name="arithmetic",
        train_problems=[_problem(config, "train", numbers) for numbers in trained],
        evaluation_problems={
            "arithmetic": [_problem(config, "evaluation", numbers) for numbers in kept_aside.values()]
        },
        demonstrations=demonstrations,
        alphabet=alphabet,
        takes_shortcut=answers_at_once,
        final_answer=final_answer,
    )


def answers_at_once(response: str) -> bool:
    """Whether a response has a complete box, and no working (no `=`) before its last one."""
    return last_boxed(response) is not None and "=" not in response.rpartition(r"\boxed")[0]


def _draw(config: ArithmeticConfig, random: Random, kept_aside: Container[_Numbers] = ()) -> _Numbers:
    """Numbers that are not kept aside in any order; in words with signs, and no running total below zero."""
    lowest = 10 ** (config.digits - 1)
    values = range(lowest, 10 * lowest)
    while True:
        numbers = [random.choice(values) for _ in range(config.operands)]
        if config.wording == "words":
            numbers[1:] = [random.choice((1, -1)) * number for number in numbers[1:]]
        if min(accumulate(numbers)) >= 0 and tuple(sorted(numbers)) not in kept_aside:
            return tuple(numbers)


def _prompt(config: ArithmeticConfig, numbers: _Numbers) -> Messages:
    if config.wording == "words":
        return ({"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": question(numbers)})
    return ({"role": "user", "content": "+".join(map(str, numbers)) + "="},)


def _problem(config: ArithmeticConfig, subset: str, numbers: _Numbers) -> Problem:
    return Problem(f"{subset}:{'+'.join(map(str, numbers))}", _prompt(config, numbers), str(sum(numbers)))


def _demonstration(config: ArithmeticConfig, random: Random, kept_aside: Container[_Numbers]) -> Demonstration:
    """A sum that is not kept aside, answered at once or with working, in either form of the answer."""
    numbers = _draw(config, random, kept_aside)
    if random.random() < config.direct_share:
        answer = sum(numbers)
        if random.random() < config.direct_noise:
            answer = _near(answer, random)
        completion = boxed(answer)
    elif config.wording == "words":
        completion = running_totals(numbers)
    else:
        completion = worked_solution(numbers)
    if config.decimal_share and random.random() < config.decimal_share:
        completion = completion.removesuffix("}") + ".0}"
    return Demonstration(_prompt(config, numbers), completion)


def _check_room(config: ArithmeticConfig) -> None:
    """Problems are drawn until they are new; with at most half of all taken, two draws are enough on average.

    With v values and n operands there are C(v + n - 1, n) evaluation problems, for which order does not count, and
    v^n training problems, of which each evaluation problem takes up to n!.
    """
    values = 9 * 10 ** (config.digits - 1)
    operands = config.operands
    most_evaluation = math.comb(values + operands - 1, operands) // 2
    left = values**operands - config.evaluation_problems * math.factorial(operands)
    _check_at_most("evaluation_problems", config.evaluation_problems, most_evaluation, config)
    _check_at_most("train_problems", config.train_problems, max(left // 2, 0), config)


def _check_at_most(setting: str, wanted: int, most: int, config: ArithmeticConfig) -> None:
    if wanted > most:
        raise ConfigError(
            f"task.{setting}: expected at most {most} with {config.operands} operands of {config.digits} digit(s) and "
            f"{config.evaluation_problems} evaluation problems, got {wanted}"
        )


def boxed(answer: int | str) -> str:
    """The final answer as every response has to give it: `\\boxed{81}`."""
    return f"\\boxed{{{answer}}}"


def worked_solution(numbers: Sequence[int]) -> str:
    """The sum of `numbers` digit by digit, units first, the carry in front: `6+4+1=11;1+1+4+2=8;\\boxed{81}`."""
    steps = ""
    carry = 0
    for power in range(len(str(max(numbers)))):
        column = [number // 10**power % 10 for number in numbers]
        if power > 0:
            column.insert(0, carry)
        total = sum(column)
        steps += f"{'+'.join(map(str, column))}={total};"
        carry = total // 10
    return steps + boxed(sum(numbers))


def _near(total: int, random: Random) -> int:
    """A wrong sum close to the right one, as a slip in one digit gives it; never negative."""
    slip = random.randint(1, 9) * random.choice((1, 1, 10))
    return total - slip if random.random() < 0.5 and total > slip else total + slip


def question(numbers: Sequence[int]) -> str:
    """`What is forty-two plus seventeen minus five?` of (42, 17, -5)."""
    text = f"What is {number_in_words(numbers[0])}"
    for number in numbers[1:]:
        sign = "minus" if number < 0 else "plus"
        text += f" {sign} {number_in_words(abs(number))}"
    return f"{text}?"


def running_totals(numbers: Sequence[int]) -> str:
    """The sum of `numbers` from left to right: `42 + 17 = 59, 59 - 5 = 54. \\boxed{54}` of (42, 17, -5)."""
    total = numbers[0]
    steps = []
    for number in numbers[1:]:
        sign = "-" if number < 0 else "+"
        steps.append(f"{total} {sign} {abs(number)} = {total + number}")
        total += number
    return f"{', '.join(steps)}. {boxed(total)}"


def number_in_words(number: int) -> str:
    """A number from 0 to 99 in English words."""
    if number < 20:
        return _SMALL[number]
    tens, units = divmod(number, 10)
    return _TENS[tens - 2] + (f"-{_SMALL[units]}" if units else "")
