"""The task `arithmetic` in words: sums and differences for a model that knows language, worked from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from random import Random

from geoalign.lab.tasks.arithmetic import ArithmeticTask, boxed

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
