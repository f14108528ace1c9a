"""Whether two answers are equal, by their text, where that is plain; math-verify decides on the rest.

An answer goes through these steps, and the first that decides ends them: `equal_at_sight`, `equal_by_form`, and
math-verify on what `comparable` makes of both. All of them get answers as `readable` writes them.
"""

from __future__ import annotations

import re

from geoalign.answers.forms import (
    WORDS,
    choice_letter,
    exact_value,
    in_base,
    integer,
    normal_form,
    tidy,
    undecorated,
    with_powers,
    without_styles,
)
from geoalign.answers.intervals import as_intervals
from geoalign.answers.signs import plain_signs
from geoalign.answers.units import SPACE, split_unit, stated_unit, units_in

# 2 3/4, 2\frac{3}{4}, 1,000 1/2: a whole number in front of a fraction.
_WHOLE = r"(?<![\w.^_}\\/)])(?<![0-9][\s,])([1-9][0-9]{0,2}(?:(?:,|\{,\})[0-9]{3})+|[0-9]{1,30})"
_MIXED_PLAIN = re.compile(rf"{_WHOLE}{SPACE}{{1,4}}([0-9]{{1,30}})\s?/\s?([0-9]{{1,30}})(?![\w.^/])")
_MIXED_LATEX = re.compile(
    rf"{_WHOLE}{SPACE}{{0,4}}\\[dt]?frac\s?(?:\{{([0-9]{{1,30}})\}}\s?\{{([0-9]{{1,30}})\}}|([0-9])\s?([0-9]))(?![0-9^])"
)

# 5 ft 6 in; 2 hours, 30 minutes.
_IN_SEVERAL_UNITS = re.compile(r"(?:[0-9]+ ?[A-Za-z]{1,9}\.?(?:,| and)? ?){2,}")
_PRIME = re.compile(r"'|′|\\prime\b")

# A quantity whose name math-verify does not know, such as I_\max, n_\gamma(\nu), in its normal form.
_NAME = re.compile(r"\\?[A-Za-z]+(?:_(?:\\?\w+|\{[^{}]*\}))?(?:\([^()=]*\))?")


def readable(text: str) -> str:
    """An answer as it is compared: Unicode signs in LaTeX, mixed numbers and powers written out, nothing around it."""
    text = tidy(plain_signs(text))
    text = _MIXED_PLAIN.sub(_improper, text)
    text = _MIXED_LATEX.sub(_improper, text)
    return with_powers(text)


def equal_at_sight(gold: str, answer: str) -> bool | None:
    """Whether two answers of any length are equal, where they are the same text or both integers; else None."""
    expected = integer(gold)
    given = integer(answer)
    if expected is not None and given is not None:
        return expected == given
    return True if gold == answer else None


def equal_by_form(gold: str, answer: str) -> bool | None:
    """Whether two answers are equal, where their forms decide; else None.

    Equal normal forms and equal numbers are equal answers. Otherwise two number bases, letters to choose, words and
    units are compared. A base, a unit or, of a number of 1 or more, a percent sign may be left out; of two they must be
    the same.
    """
    expected = normal_form(gold)
    if expected and expected == normal_form(answer):
        return True
    value = exact_value(expected)
    if value is not None and value == exact_value(normal_form(answer)):
        return True
    for decide in (_equal_in_base, _equal_letters, _equal_words, _unequal_quantities, _equal_with_units):
        equal = decide(gold, answer)
        if equal is not None:
            return equal
    return None


def comparable(gold: str, answer: str) -> tuple[str, str]:
    """Both answers as math-verify gets them: without units that it need not know, inequalities beside intervals as
    intervals."""
    expected, unit = stated_unit(gold)
    given, other = stated_unit(answer)
    if unit == other != "":
        return expected, given
    if (unit or other) and "%" not in (unit, other):
        return expected, given
    return as_intervals(gold, answer)


def without_name(gold: str, answer: str) -> tuple[str, str]:
    """Both answers without the name that the gold one has, where the other has it or none: `I_{\\max}=q` is `q`."""
    name, value = _name_and_value(gold)
    other, given = _name_and_value(answer)
    if name and (other == name or (not other and "=" not in given)):
        return value, given
    return gold, answer


def _improper(mixed: re.Match[str]) -> str:
    """A mixed number as one fraction, to which a sign in front belongs as a whole: `-2 3/4` is -11/4."""
    parts = [part for part in mixed.groups() if part is not None]
    whole = int(re.sub("[{,}]", "", parts[0]))
    above = int(parts[1])
    below = int(parts[2])
    if above >= below:
        return mixed[0]
    return rf"\frac{{{whole * below + above}}}{{{below}}}"


def _equal_in_base(gold: str, answer: str) -> bool | None:
    """The base may be left out by the answer, not by the gold answer; nothing is converted."""
    expected = in_base(gold)
    given = in_base(answer)
    if expected is not None and given is not None:
        return expected == given
    if expected is not None:
        digits = integer(answer)
        return None if digits is None else digits == expected[0]
    if given is not None:
        digits = integer(gold)
        return None if digits is None else (digits, 10) == given
    return None


def _equal_letters(gold: str, answer: str) -> bool | None:
    expected = choice_letter(gold, loosely=True)
    given = choice_letter(answer, loosely=True)
    return None if expected is None or given is None else expected == given


def _equal_words(gold: str, answer: str) -> bool | None:
    expected = undecorated(gold).lower()
    given = undecorated(answer).lower()
    return expected == given if expected in WORDS and given in WORDS else None


def _unequal_quantities(gold: str, answer: str) -> bool | None:
    """False for two quantities in several units of different numbers, and for different numbers of primes.

    Math-verify reads `5 ft 6 in` as 5, and neither the primes of a derivative nor those of minutes and seconds.
    """
    expected = _IN_SEVERAL_UNITS.fullmatch(without_styles(gold))
    given = _IN_SEVERAL_UNITS.fullmatch(without_styles(answer))
    if expected and given and re.findall("[0-9]+", expected[0]) != re.findall("[0-9]+", given[0]):
        return False
    primes = len(_PRIME.findall(gold)) - len(_PRIME.findall(answer))
    return False if primes else None


def _equal_with_units(gold: str, answer: str) -> bool | None:
    """False for two different units; else whether the numbers are equal without them, where their text tells."""
    _, gold_unit = split_unit(without_styles(gold))
    _, answer_unit = split_unit(without_styles(answer))
    if gold_unit and answer_unit:
        if gold_unit != answer_unit and not _scale_is_left_out(gold_unit, answer_unit):
            return False
    else:
        # In lists and behind names.
        units_in_gold = units_in(gold)
        units_in_answer = units_in(answer)
        if units_in_gold and units_in_answer and units_in_gold != units_in_answer:
            return False
    expected, stated_in_gold = stated_unit(gold)
    given, stated_in_answer = stated_unit(answer)
    if not stated_in_gold and not stated_in_answer:
        return None
    if stated_in_gold != stated_in_answer:
        if stated_in_gold == "%":
            return _equal_percentage(expected, given)
        if stated_in_answer == "%":
            return _equal_percentage(given, expected)
    equal = equal_at_sight(expected, given)
    return True if equal is None and normal_form(expected) == normal_form(given) else equal


def _scale_is_left_out(unit: str, other: str) -> bool:
    """Whether one of two temperatures is in degrees without saying of which scale."""
    units = {unit, other}
    return "degree" in units and bool(units & {"degC", "degF"})


def _equal_percentage(percentage: str, number: str) -> bool | None:
    """Whether a number is that of a percentage, or a percentage without its sign; None where it takes more to see."""
    share = exact_value(normal_form(percentage))
    value = exact_value(normal_form(number))
    if share is None or value is None:
        return None
    without_sign = share == value and abs(value) >= 1
    return True if without_sign or share / 100 == value else None


def _name_and_value(text: str) -> tuple[str, str]:
    """The name in front of an equals sign, where it is one that math-verify does not know, and what stands behind it;
    "" and the text itself where there is none."""
    left, _, value = without_styles(text).partition("=")
    name = normal_form(left)
    if not value or "=" in value or "\\" not in name or not _NAME.fullmatch(name):
        return "", text
    return name.replace("{", "").replace("}", ""), value
