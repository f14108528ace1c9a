"""The built-in task `arithmetic`: small sums, answered at once or with working, in digits or in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from random import Random

from geoalign.boxed import last_boxed
from geoalign.errors import ConfigError
from geoalign.lab.config.tasks import ArithmeticConfig
from geoalign.lab.rewards.answers import final_answer
from geoalign.lab.tasks.base import Demonstration, Problem, Task

SYSTEM_PROMPT = "Answer in \\boxed{}."

_DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_TEENS = [
    "ten",
    "eleven",
    "twelve",
    *(f"{stem}teen" for stem in ("thir", "four", "fif", "six", "seven", "eigh", "nine")),
]
_SMALL = [*_DIGITS, *_TEENS]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

_Numbers = tuple[int, ...]


class ArithmeticTask(Task):
    """Sums such as `16+44+21=`, in an order fixed by the seed.

    No evaluation problem is a training problem or a demonstration, not even with its numbers in another order.
    Demonstrations answer at once (`\\boxed{81}`) or add digit by digit first, units to the left, the carry in front
    (`6+4+1=11;1+1+4+2=8;\\boxed{81}`). Of the direct ones a share (`direct_noise`) is off by a little. A share of all
    (`decimal_share`) writes the answer in a form that is as right and another text: `\\boxed{81.0}`.
    """

    name = "arithmetic"

    def __init__(self, config: ArithmeticConfig, *, seed: int) -> None:
        self._config = config
        self._seed = seed
        lowest = 10 ** (config.digits - 1)
        self._numbers = range(lowest, 10 * lowest)
        self._check_room()

    def train_problems(self) -> Sequence[Problem]:
        return self._train

    def evaluation_problems(self) -> Mapping[str, Sequence[Problem]]:
        return {"arithmetic": self._evaluation}

    def demonstrations(self) -> Sequence[Demonstration]:
        return self._demonstrations

    def alphabet(self) -> str | None:
        return "".join(sorted(set("0123456789+=;" + boxed("") + ("." if self._config.decimal_share else ""))))

    def takes_shortcut(self, response: str) -> bool:
        """Whether a response answers at once: it has a complete box, and no working (no `=`) before its last box."""
        return last_boxed(response) is not None and "=" not in response.rpartition(r"\boxed")[0]

    def final_answer(self, response: str) -> str | None:
        return final_answer(response)

    @cached_property
    def _evaluation(self) -> list[Problem]:
        return [self._problem("evaluation", numbers) for numbers in self._kept_aside.values()]

    @cached_property
    def _kept_aside(self) -> dict[_Numbers, _Numbers]:
        """The numbers of each evaluation problem, by the same numbers in order."""
        random = self._random("evaluation")
        drawn: dict[_Numbers, _Numbers] = {}
        while len(drawn) < self._config.evaluation_problems:
            numbers = self._draw(random)
            drawn.setdefault(tuple(sorted(numbers)), numbers)
        return drawn

    @cached_property
    def _train(self) -> list[Problem]:
        random = self._random("train")
        drawn: dict[_Numbers, None] = {}
        while len(drawn) < self._config.train_problems:
            drawn[self._draw_for_training(random)] = None
        return [self._problem("train", numbers) for numbers in drawn]

    @cached_property
    def _demonstrations(self) -> list[Demonstration]:
        random = self._random("demonstrations")
        return [self._demonstration(random) for _ in range(self._config.demonstrations)]

    def _demonstration(self, random: Random) -> Demonstration:
        numbers = self._draw_for_training(random)
        if random.random() < self._config.direct_share:
            wrong = random.random() < self._config.direct_noise
            completion = boxed(_near(sum(numbers), random) if wrong else sum(numbers))
        else:
            completion = self._worked(numbers)
        if self._config.decimal_share and random.random() < self._config.decimal_share:
            completion = completion.removesuffix("}") + ".0}"
        return Demonstration(self._prompt(numbers), completion)

    def _draw(self, random: Random) -> _Numbers:
        return tuple(random.choice(self._numbers) for _ in range(self._config.operands))

    def _prompt(self, numbers: _Numbers) -> tuple[dict[str, str], ...]:
        return ({"role": "user", "content": "+".join(map(str, numbers)) + "="},)

    def _worked(self, numbers: _Numbers) -> str:
        return worked_solution(numbers)

    def _problem(self, subset: str, numbers: _Numbers) -> Problem:
        return Problem(f"{subset}:{'+'.join(map(str, numbers))}", self._prompt(numbers), str(sum(numbers)))

    def _draw_for_training(self, random: Random) -> _Numbers:
        while True:
            numbers = self._draw(random)
            if tuple(sorted(numbers)) not in self._kept_aside:
                return numbers

    def _random(self, purpose: str) -> Random:
        # A generator for each purpose: more demonstrations, say, leave the problems as they are.
        return Random(f"arithmetic/{self._seed}/{purpose}")

    def _check_room(self) -> None:
        """Problems are drawn until they are new; with at most half of all taken, two draws are enough on average."""
        config, values = self._config, len(self._numbers)
        up_to_order = math.comb(values + config.operands - 1, config.operands)
        if config.evaluation_problems > up_to_order // 2:
            raise ConfigError(
                f"task.evaluation_problems: expected at most {up_to_order // 2} with {config.operands} operands of "
                f"{config.digits} digit(s), got {config.evaluation_problems}"
            )
        left = values**config.operands - config.evaluation_problems * math.factorial(config.operands)
        if config.train_problems > left // 2:
            raise ConfigError(
                f"task.train_problems: expected at most {max(left // 2, 0)} with {config.operands} operands of "
                f"{config.digits} digit(s) and {config.evaluation_problems} evaluation problems, "
                f"got {config.train_problems}"
            )


class WordSumsTask(ArithmeticTask):
    """Questions such as `What is forty-two plus seventeen minus five?`, otherwise as `ArithmeticTask`.

    A number that is subtracted is negative in a problem's id; no running total is below zero. Worked demonstrations
    give the running totals: `42 + 17 = 59, 59 - 5 = 54. \\boxed{54}`.
    """

    def alphabet(self) -> None:
        return None

    def _draw(self, random: Random) -> _Numbers:
        while True:
            first, *others = super()._draw(random)
            numbers = (first, *(random.choice((1, -1)) * number for number in others))
            if min(accumulate(numbers)) >= 0:
                return numbers

    def _prompt(self, numbers: _Numbers) -> tuple[dict[str, str], ...]:
        return ({"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": question(numbers)})

    def _worked(self, numbers: _Numbers) -> str:
        return running_totals(numbers)


def boxed(answer: int | str) -> str:
    """The final answer as every response has to give it: `\\boxed{81}`."""
    return f"\\boxed{{{answer}}}"


def worked_solution(numbers: Sequence[int]) -> str:
    """The sum of `numbers` digit by digit, units first, the carry in front: `6+4+1=11;1+1+4+2=8;\\boxed{81}`."""
    steps, carry = [], 0
    for power in range(len(str(max(numbers)))):
        digits = [number // 10**power % 10 for number in numbers]
        column = [carry, *digits] if power else digits
        total = sum(column)
        steps.append(f"{'+'.join(map(str, column))}={total};")
        carry = total // 10
    return "".join(steps) + boxed(sum(numbers))


def _near(total: int, random: Random) -> int:
    """A wrong sum close to the right one, as a slip in one digit gives it; never negative."""
    slip = random.randint(1, 9) * random.choice((1, 1, 10))
    return total - slip if random.random() < 0.5 and total > slip else total + slip


def question(numbers: Sequence[int]) -> str:
    """`What is forty-two plus seventeen minus five?` of (42, 17, -5)."""
    steps = (f" {'minus' if number < 0 else 'plus'} {in_words(abs(number))}" for number in numbers[1:])
    return f"What is {in_words(numbers[0])}{''.join(steps)}?"


def running_totals(numbers: Sequence[int]) -> str:
    """The sum of `numbers` from left to right: `42 + 17 = 59, 59 - 5 = 54. \\boxed{54}` of (42, 17, -5)."""
    totals = list(accumulate(numbers))
    steps = (
        f"{before} {'-' if number < 0 else '+'} {abs(number)} = {after}"
        for before, number, after in zip(totals, numbers[1:], totals[1:], strict=False)
    )
    return f"{', '.join(steps)}. {boxed(totals[-1])}"


def in_words(number: int) -> str:
    """A number from 0 to 99 in English words."""
    if number < 20:
        return _SMALL[number]
    tens, units = divmod(number, 10)
    return _TENS[tens - 2] + (f"-{_SMALL[units]}" if units else "")
