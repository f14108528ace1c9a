"""Two answers compared by their text, where that is plain; math-verify decides on the rest."""

from __future__ import annotations

import re
from fractions import Fraction

from geoalign.answers.forms import (
    bare_letter,
    choice_letter,
    exact_value,
    in_base,
    normal_form,
    numbers_in_bases,
    tidy,
    undecorated,
    with_powers,
    without_styles,
)
from geoalign.answers.intervals import as_intervals
from geoalign.answers.signs import plain_signs
from geoalign.answers.units import split_unit, stated_unit, units_in

# 1234, 1,234, 1{,}234, 025, 27.0: an integer, however written. `0,123` is none.
_INTEGER = re.compile(r"([+-]?)([1-9][0-9]{0,2}(?:(?:,|\{,\})[0-9]{3})+|[0-9]+)(?:\.0*)?")

# 2 3/4, 2\frac{3}{4}, 1,000 1/2: a whole number in front of a fraction.
_WHOLE = r"(?<![\w.^_}\\/)])(?<![0-9][\s,])([1-9][0-9]{0,2}(?:(?:,|\{,\})[0-9]{3})+|[0-9]{1,30})"
_GAP = r"(?:\s|~|\\[ ,;:])"
_MIXED_PLAIN = re.compile(rf"{_WHOLE}{_GAP}{{1,4}}([0-9]{{1,30}})\s?/\s?([0-9]{{1,30}})(?![\w.^/])")
_MIXED_LATEX = re.compile(
    rf"{_WHOLE}{_GAP}{{0,4}}\\[dt]?frac\s?(?:\{{([0-9]{{1,30}})\}}\s?\{{([0-9]{{1,30}})\}}|([0-9])\s?([0-9]))(?![0-9^])"
)

# Sizes of brackets, dollar signs and spaces, unless these divide two numbers, are no part of an answer.
_NOTHING = re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\?\$|\\[,!;:]|(?<![0-9\s])\s+|(?<!\s)\s+(?![0-9\s])")
# A quantity whose name math-verify does not know, such as I_{\max}, n_\gamma(\nu).
_NAME = re.compile(r"\\?[A-Za-z]+(?:_(?:\\?\w+|\{[^{}]*\}))?(?:\([^()=]*\))?")
_PRIMES = re.compile(r"(?<=[A-Za-z)\]])(?:'|\^\{?\\prime\}?)+")
# 5 ft 6 in, 2 hours and 30 minutes, 5' 6''.
_NUMBER_AND_UNIT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(?:\s|~|\\[,;: ]){0,4}([A-Za-z]+\.?|'{1,2}|\")")
_BETWEEN_QUANTITIES = re.compile(r"(?:\s|~|\\[,;: ]|,|and)*")
_WORDS = ("yes", "no", "true", "false")


def readable(text: str) -> str:
    """An answer as it is compared: Unicode signs in LaTeX, mixed numbers and powers written out, nothing around it."""
    return with_powers(_with_mixed_numbers(tidy(plain_signs(text))))


def quick_verdict(gold: str, answer: str) -> bool | None:
    """Whether two answers are equal where that is plain (two integers of any form, or equal but for spaces, sizes of
    brackets, dollar signs and letter styles), without computer algebra; None where it is not.
    """
    expected, given = _INTEGER.fullmatch(gold), _INTEGER.fullmatch(answer)
    if expected is not None and given is not None:
        return _canonical(expected) == _canonical(given)
    return True if gold == answer or plain(gold) == plain(answer) else None


def verdict_by_form(gold: str, answer: str) -> bool | None:
    """Whether two answers are equal where their forms decide: number bases, letters to choose, yes and no, units and
    percent signs; None where they do not.

    A base, a unit or, of a number of 1 or more, a percent sign may be left out; of two they must be the same. A letter
    to choose stands for itself with its text.
    """
    for decide in (_by_base, _by_letter, _by_primes, _by_word, _by_several_units, _by_unit, _by_normal_form):
        equal = decide(gold, answer)
        if equal is not None:
            return equal
    return None


def comparable(gold: str, answer: str) -> tuple[str, str]:
    """Both answers as math-verify gets them: without units that it need not know, inequalities beside intervals as
    intervals."""
    (expected, unit), (given, other) = stated_unit(gold), stated_unit(answer)
    if unit == other != "" or ((unit or other) and "%" not in (unit, other)):
        return expected, given
    return as_intervals(gold, answer)


def plain(text: str) -> str:
    """Without spaces, bracket sizes, dollar signs and letter styles; equal texts are equal answers."""
    spaced = without_styles(text).replace(r"\qquad", " ").replace(r"\quad", " ")
    return _NOTHING.sub("", spaced).replace(r"\dfrac", r"\frac")


def without_name(gold: str, answer: str) -> tuple[str, str]:
    """Both answers without the name that the gold one has, where the other has it or none: `I_{\\max}=q` is `q`."""
    (name, value), (other, given) = _named(gold), _named(answer)
    same = name and (other == name or (not other and "=" not in given))
    return (value, given) if same else (gold, answer)


def _by_base(gold: str, answer: str) -> bool | None:
    expected, given = in_base(gold), in_base(answer)
    if expected is not None and given is not None:
        return expected == given
    if expected is not None:
        number = _INTEGER.fullmatch(answer)
        return None if number is None else _canonical(number) == expected[0]
    if given is not None:
        number = _INTEGER.fullmatch(gold)
        return None if number is None else given[1] == 10 and _canonical(number) == given[0]
    # In lists and equations, too, no other base may stand.
    bases = [numbers_in_bases(text) for text in (gold, answer)]
    return False if all(bases) and bases[0] != bases[1] else None


def _by_letter(gold: str, answer: str) -> bool | None:
    expected = choice_letter(gold, with_text=True)
    given = choice_letter(answer, with_text=True)
    if expected is None or given is None:
        return None
    if expected != given:
        return False
    # Of two letters with a text behind them the texts count, too.
    return True if bare_letter(gold) is not None or bare_letter(answer) is not None else None


def _by_primes(gold: str, answer: str) -> bool | None:
    """False where nothing but the primes behind letters and brackets differs: `f''(2)` for `f'(2)`."""
    expected, given = plain(gold), plain(answer)
    same_without = _PRIMES.sub("", expected) == _PRIMES.sub("", given)
    return False if same_without and _PRIMES.findall(expected) != _PRIMES.findall(given) else None


def _by_word(gold: str, answer: str) -> bool | None:
    expected, given = undecorated(gold).lower(), undecorated(answer).lower()
    return expected == given if expected in _WORDS and given in _WORDS else None


def _by_unit(gold: str, answer: str) -> bool | None:
    units = [split_unit(without_styles(text))[1] for text in (gold, answer)]
    # Degrees beside degrees Celsius leave out whose.
    temperature = "degree" in units and bool({"degC", "degF"} & set(units))
    if all(units) and units[0] != units[1] and not temperature:
        return False
    # In lists and behind names.
    inside = [units_in(text) for text in (gold, answer)]
    if not all(units) and all(inside) and inside[0] != inside[1]:
        return False
    (expected, unit), (given, other) = stated_unit(gold), stated_unit(answer)
    if "%" in (unit, other) and unit != other:
        return _by_percent(*((expected, given) if unit == "%" else (given, expected)))
    return quick_verdict(expected, given) if unit or other else None


def _by_several_units(gold: str, answer: str) -> bool | None:
    """Quantities in several units, such as `5 ft 6 in`: the same numbers of the same units, since nothing is converted.

    One of them beside a single number is another answer; beside a list it takes more to see.
    """
    expected, given = _in_several_units(gold), _in_several_units(answer)
    if expected is not None and given is not None:
        return expected == given
    if expected is None and given is None:
        return None
    number = split_unit(without_styles(answer if given is None else gold))[0]
    return None if exact_value(normal_form(number)) is None else False


def _in_several_units(text: str) -> list[tuple[Fraction | None, str]] | None:
    """The numbers and their different units, in order; None for any other text."""
    parts = _NUMBER_AND_UNIT.findall(without_styles(text))
    rest = _NUMBER_AND_UNIT.sub("", without_styles(text))
    if len(parts) < 2 or not _BETWEEN_QUANTITIES.fullmatch(rest):
        return None
    split = [split_unit(f"{number} {unit}") for number, unit in parts]
    units = [unit for _, unit in split]
    if not all(units) or len(set(units)) < len(units):
        return None
    return [(exact_value(normal_form(number)), unit) for number, unit in split]


def _by_normal_form(gold: str, answer: str) -> bool | None:
    """True for equal normal forms, and for numbers of exactly one value; None for all others."""
    expected, given = normal_form(gold), normal_form(answer)
    if expected == given and expected:
        return True
    value = exact_value(expected)
    return True if value is not None and value == exact_value(given) else None


def _by_percent(percentage: str, number: str) -> bool | None:
    """Whether a number is that of a percentage, or a percentage without its sign; None where it takes more to see."""
    share, value = exact_value(normal_form(percentage)), exact_value(normal_form(number))
    if share is None or value is None:
        return None
    same = share == value and abs(value) >= 1
    return True if same or share / 100 == value else None


def _with_mixed_numbers(text: str) -> str:
    """Mixed numbers as one fraction, which a sign in front then belongs to as a whole: `-2 3/4` is -11/4."""
    return _MIXED_LATEX.sub(_improper, _MIXED_PLAIN.sub(_improper, text))


def _improper(match: re.Match[str]) -> str:
    whole, above, below = [part for part in match.groups() if part is not None]
    if int(above) >= int(below):
        return match[0]
    return rf"\frac{{{int(re.sub('[{,}]', '', whole)) * int(below) + int(above)}}}{{{below}}}"


def _named(text: str) -> tuple[str, str]:
    left, _, value = without_styles(text).partition("=")
    name = plain(left)
    named = value and "=" not in value and "\\" in name and _NAME.fullmatch(name)
    return (name.replace("{", "").replace("}", ""), value) if named else ("", text)


def _canonical(integer: re.Match[str]) -> str:
    digits = re.sub(r"[^0-9]", "", integer[2]).lstrip("0")
    return ("-" if integer[1] == "-" else "") + digits if digits else "0"
