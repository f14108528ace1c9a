"""Two answers compared by their text, where that is plain; math-verify decides on the rest."""

from __future__ import annotations

import re

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
from geoalign.answers.signs import plain_signs
from geoalign.answers.units import split_unit, stated_unit, units_in
from geoalign.lab.rewards.intervals import as_intervals

# 1234, 1,234, 1{,}234, 025, 27.0: an integer, however written. `0,123` is none.
_INTEGER = re.compile(r"([+-]?)([1-9][0-9]{0,2}(?:(?:,|\{,\})[0-9]{3})+|[0-9]+)(?:\.0*)?")

# 2 3/4, 2\frac{3}{4}, 1,000 1/2: a whole number in front of a fraction.
_WHOLE = r"(?<![\w.^_}\\/)])(?<![0-9][\s,])([1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]{1,30})"
_GAP = r"(?:\s|~|\\[ ,;:])"
_MIXED_PLAIN = re.compile(rf"{_WHOLE}{_GAP}{{1,4}}([0-9]{{1,30}})\s?/\s?([0-9]{{1,30}})(?![\w.^/])")
_MIXED_LATEX = re.compile(
    rf"{_WHOLE}{_GAP}{{0,4}}\\[dt]?frac\s?(?:\{{([0-9]{{1,30}})\}}\s?\{{([0-9]{{1,30}})\}}|([0-9])\s?([0-9]))(?![0-9^])"
)

# Sizes of brackets, dollar signs and spaces, unless these divide two numbers, are no part of an answer.
_NOTHING = re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\?\$|\\[,!;:]|(?<![0-9\s])\s+|(?<!\s)\s+(?![0-9\s])")
# A quantity whose name math-verify does not know, such as I_{\max}, n_\gamma(\nu).
_NAME = re.compile(r"\\?[A-Za-z]+(?:_(?:\\?\w+|\{[^{}]*\}))?(?:\([^()=]*\))?")
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
    for decide in (_by_base, _by_letter, _by_word, _by_unit):
        equal = decide(gold, answer)
        if equal is not None:
            return equal
    return None


def comparable(gold: str, answer: str) -> tuple[str, str]:
    """Both answers as math-verify gets them: without units that it need not know, inequalities beside intervals as
    intervals."""
    (expected, unit), (given, other) = stated_unit(gold), stated_unit(answer)
    if (unit or other) and "%" not in (unit, other):
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
    if bare_letter(gold) is None and bare_letter(answer) is None:
        return None
    expected = choice_letter(gold, with_text=True)
    given = choice_letter(answer, with_text=True)
    return None if expected is None or given is None else expected == given


def _by_word(gold: str, answer: str) -> bool | None:
    expected, given = undecorated(gold).lower(), undecorated(answer).lower()
    return expected == given if expected in _WORDS and given in _WORDS else None


def _by_unit(gold: str, answer: str) -> bool | None:
    units = [split_unit(without_styles(text))[1] for text in (gold, answer)]
    if all(units) and units[0] != units[1]:
        return False
    # In lists and behind names.
    inside = [units_in(text) for text in (gold, answer)]
    if not all(units) and all(inside) and inside[0] != inside[1]:
        return False
    (expected, unit), (given, other) = stated_unit(gold), stated_unit(answer)
    if "%" in (unit, other) and unit != other:
        return _by_percent(*((expected, given) if unit == "%" else (given, expected)))
    return quick_verdict(expected, given) if unit or other else None


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
    return rf"\frac{{{int(whole.replace(',', '')) * int(below) + int(above)}}}{{{below}}}"


def _named(text: str) -> tuple[str, str]:
    left, _, value = without_styles(text).partition("=")
    name = plain(left)
    named = value and "=" not in value and "\\" in name and _NAME.fullmatch(name)
    return (name.replace("{", "").replace("}", ""), value) if named else ("", text)


def _canonical(integer: re.Match[str]) -> str:
    digits = re.sub(r"[^0-9]", "", integer[2]).lstrip("0")
    return ("-" if integer[1] == "-" else "") + digits if digits else "0"
