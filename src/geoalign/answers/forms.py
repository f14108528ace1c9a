"""One normal form of a final answer, by its text alone: equal forms are taken for equal answers.

Degrees and dollar signs are dropped. Equal values may still differ in form, as 1/2 and 0.5 do.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from geoalign.answers.signs import LONGEST, plain_signs
from geoalign.answers.units import SPACE, STYLED, split_unit

# --- what stands around an answer -------------------------------------------------------------------------------------

# What an answer may end in: full stops and space, of every kind that `str.strip` takes off.
_END = ".,;\\~" + "".join(sign for sign in map(chr, range(0x3001)) if sign.isspace())
_SPACES_IN_FRONT = re.compile(r"(?:\s|~|\\[,;:!> ]|\\q?quad(?![A-Za-z]))*")
_SPACES_BEHIND = (r"\!", r"\:", r"\>", r"\quad", r"\qquad")
# Colours and sizes that hold for what follows.
_SWITCHES = re.compile(
    r"\\(?:text)?color\s{0,4}\{[A-Za-z]{1,30}\}"
    r"|\\(?:bf|bfseries|rm|it|tiny|small|large|Large|LARGE|huge|Huge)(?![A-Za-z])(?!\s{0,4}\{)"
)
_DEGREE = re.compile(r"\^?\\degree(?![A-Za-z])")
_BRACKETS_AROUND = (
    (r"\(", r"\)"),
    (r"\[", r"\]"),
    ("**", "**"),
    ("$$", "$$"),
    ("{", "}"),
    (r"\boxed{", "}"),
)
_COMMAND_AT_END = re.compile(r"\\[A-Za-z]{1,20}\Z")
_SINGLE = re.compile(r"([_^])\{\s*([A-Za-z0-9])\s*\}")

# --- numbers ----------------------------------------------------------------------------------------------------------

# An integer that is in its normal form.
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,99}")
# 1234, 1,234, 025, 27.0, .5: a number in digits, thousands in groups of three. `0,123` is none.
_NUMBER = re.compile(r"([+-]?)([1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]*)(?:\.([0-9]*))?")
# An integer as people write it: 1{,}234 and 27.0, too.
_WRITTEN_INTEGER = re.compile(r"([+-]?)([1-9][0-9]{0,2}(?:(?:,|\{,\})[0-9]{3})+|[0-9]+)(?:\.0*)?")
_THOUSANDS = re.compile(r"(?<=[0-9])(?:\\[,;: ]|~|\{,\}|,\\!\s{0,4}|\{\\,\})(?=[0-9]{3}(?![0-9]))")
_FRACTION = re.compile(r"([+-]?)(?:([0-9]+)\s*(?:\\[,;: ])?\s*)?\\frac\{([+-]?)([0-9]+)\}\{([+-]?)([0-9]+)\}")
_SLASHED = re.compile(r"([+-]?)(?:([0-9]+)(?:\s+|\s*\\[,;: ]\s*))?([0-9]+)\s*/\s*([0-9]+)")
_BRACKETED_SLASHED = re.compile(r"[({]*([+-]?[0-9]+)[)}]?/[({]?([0-9]+)[)}]*")
_SYMBOLS_SLASHED = re.compile(
    r"([+-]?)([0-9]*(?:\\sqrt\{[0-9]+\}|\\[A-Za-z]+|[A-Za-z])|[0-9]+)/(\\[A-Za-z]+|[A-Za-z]|[0-9]+)"
)
# 0.1\overline{6}: the digits under the line are repeated for ever.
_REPEATING = re.compile(r"(-?)([0-9]*)\.([0-9]*)\\overline\{([0-9]+)\}")
_SCIENTIFIC = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)\\times10\^(?:([0-9])|\{(-?[0-9]{1,3})\})")
_POWERS_OF_WORDS = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_NUMBER_WORD = re.compile(
    rf"(?<=[0-9}}]){SPACE}{{0,4}}(\\(?:text|mathrm|textrm|mbox)\s?\{{\s{{0,4}})?"
    rf"({'|'.join(_POWERS_OF_WORDS)})(?![A-Za-z])(\s{{0,4}}\}})?"
)
# 4.5e33, 3e6, 1e-5; larger powers are no answers.
_POWER = re.compile(r"(?<![\w.\\])([0-9]{1,100}\.?[0-9]{0,100})[eE]([+-]?[0-9]{1,3})(?![\w.])")
_TIMES_TEN = re.compile(r"(?<=[0-9])\s{0,4}(?:x|X|\*)\s{0,4}10\s{0,4}\^")
_NEGATIVE_POWER = re.compile(r"\^\s{0,4}-\s{0,4}([0-9]{1,30})")
# Longer numbers are compared as text.
_MOST_DIGITS = 400

_BASES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11,
    "twelve": 12, "sixteen": 16,
}  # fmt: skip
_BASE = r"(?:base[- ]?)?\s*([0-9]{1,2}|[a-z]{3,7})"
_IN_BASE = re.compile(
    r"\(?([0-9][0-9A-Z]*|[A-F]{1,20})\)?\s*"
    rf"(?:_\s*(?:([0-9])|\{{\s*\(?{_BASE}\)?\s*\}})|,?\s*(?:in\s+)?\(?base[- ]{_BASE}\)?)"
)

# --- letters, words and formulas --------------------------------------------------------------------------------------

WORDS = ("yes", "no", "true", "false")
_MARK = r"(?:(?:[Tt]he\s+)?(?:[Cc]orrect\s+)?(?:[Oo]ption|[Cc]hoice|[Aa]nswer)(?:\s+is)?\s*:?\s*)?"
_BARE_LETTER = re.compile(rf"{_MARK}[(\[{{]?\s*([A-Z])\s*[)\]}}]?\s*[.:]?")
_LETTER_AND_TEXT = re.compile(
    rf"{_MARK}\(?([A-J])\)(?:\s|\\[ ,;:]|~|\\q?quad(?![A-Za-z]))+(?![-+*/=<>^_]\s)(\S.*)", re.DOTALL
)
_LOOSE_LETTER_AND_TEXT = re.compile(r"([A-J])[.:](?:\s|\\[ ,;:]|~)+(\S.*)", re.DOTALL)
_ANOTHER_LETTER = re.compile(r"\(?[A-Z][).:]")
_WRAPPED = re.compile(r"\(\s*([A-Za-z]|[-+]?[0-9]+(?:\.[0-9]+)?|[-+]?\\frac\{[0-9]+\}\{[0-9]+\})\s*\)")
# Words of two letters and more that are formulas.
_FUNCTIONS = {
    "sin", "cos", "tan", "cot", "sec", "csc", "log", "ln", "exp", "max", "min", "mod", "gcd", "lcm", "and", "or",
    "sqrt", "pi",
}  # fmt: skip

# Spellings of one formula, replaced in this order.
_SPELLINGS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"\\(?:left|right|[bB]igg?[lr]?|displaystyle|textstyle|limits)(?![A-Za-z])", ""),
        (r"\\(?:[dtcs]|nice)frac(?![A-Za-z])", r"\\frac"),
        (r"<=", r"\\le "),
        (r">=", r"\\ge "),
        (r"\\leq(?:slant)?(?![A-Za-z])", r"\\le"),
        (r"\\geq(?:slant)?(?![A-Za-z])", r"\\ge"),
        (r"\\neq(?![A-Za-z])", r"\\ne"),
        (r"\\varnothing(?![A-Za-z])", r"\\emptyset"),
        (r"\{\s*\}", ""),
        (r"\\!", ""),
        (r"\\[,;:> ]|~|\\q?quad(?![A-Za-z])", " "),
        (r"\\(?:cdot|times)\s*(?=10\s*\^)", r"\\times"),
        (r"\\frac(?![A-Za-z])\s*([0-9A-Za-z]|\\[A-Za-z]+)\s*(?=[{0-9A-Za-z\\])", r"\\frac{\1}"),
        (r"(\\frac\{[^{}]*\})\s*([0-9](?![0-9])|[A-Za-z]|\\[A-Za-z]+)", r"\1{\2}"),
        (r"\\sqrt(\[[0-9]+\])?\s*([0-9A-Za-z])", r"\\sqrt\1{\2}"),
        (r"([(\[{,=])\s*\+", r"\1"),
        (r"\\bar\s*(?:\{([0-9]+)\}|([0-9]))", r"\\overline{\1\2}"),
        # Braces around one number or letter that no command, power or index takes: `{2}\pi`, `-{5}`.
        (r"(?<![A-Za-z0-9_^}\]\\\s])\{([0-9]+|[A-Za-z])\}", r"\1"),
        (r"(?<=[0-9])\s?(?:\\cdot|\*)\s?(?=\\(?:pi|sqrt)(?![A-Za-z]))", ""),
        (r"^\s?=", ""),
        (r"\s+", " "),
        (r"(\\[A-Za-z]+) (?![A-Za-z])", r"\1"),
        # A comma in a list (`1, 234`) must not become one of thousands: its space is kept behind a mark.
        (r"(?<=[0-9]), (?=[0-9]{3}(?![0-9]))", ", \x00"),
        (r"(?<![0-9A-Za-z]) (?!\x00)| (?![0-9A-Za-z\x00])", ""),
        (r"\x00", ""),
        (r"(?<=[0-9]) (?=[A-Za-z](?![A-Za-z]))", ""),
    )
)


# --- the normal form --------------------------------------------------------------------------------------------------


def normal_form(answer: str) -> str:
    r"""The answer in one spelling; "" for an answer of nothing.

    Purely by its text: equal forms are equal answers, but equal answers may differ in form (`\frac{1}{2}`, `0.5`).
    Spaces, `$`, sizes of brackets, letter styles, a full stop behind it, `\dfrac`, `1,234`, `+5`, `007`, `0.50`, `1/2`,
    Unicode signs, `(B)` and `Yes` are spelling; so are degrees and dollars, which are left out. Other units stay, in
    one spelling (`5\text{cm}` is `5 cm`), as do percent signs, names (`x=5`) and orders. A list is no number: `(1,234)`
    and `1, 234` stay as they are. Longer texts than `LONGEST` characters only lose the spaces around them.
    """
    if len(answer) > LONGEST:
        return answer.strip()
    return answer if INTEGER.fullmatch(answer) else _normal_form(answer)


@lru_cache(maxsize=65536)
def _normal_form(text: str) -> str:
    """Respells an answer until it no longer changes, at most four times: more only hostile texts would need."""
    for _ in range(4):
        before = text
        text = _respelt(text)
        if text == before:
            break
    return text


def _respelt(text: str) -> str:
    """One reading of an answer: as a word, a letter to choose, a number in a base, or else a value with a unit."""
    text = with_powers(undecorated(plain_signs(text)))
    if text.lower() in WORDS:
        return text.lower()
    letter = choice_letter(text)
    if letter is not None:
        return letter
    based = in_base(text)
    if based is not None:
        digits, base = based
        if base == 10:
            return digits
        return f"{digits}_{base}" if base < 10 else f"{digits}_{{{base}}}"
    number, unit = split_unit(_THOUSANDS.sub(",", text))
    if unit in ("degree", "dollar", ""):
        return _respelt_value(_without_degrees(number))
    return _respelt_value(number) + (r"\%" if unit == "%" else f" {unit}")


def _respelt_value(text: str) -> str:
    """An answer without its unit in one spelling."""
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    text = _SINGLE.sub(r"\1\2", text.strip())
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped is not None:
        text = wrapped[1]
    number = _NUMBER.fullmatch(text)
    if number is not None and any(sign.isdigit() for sign in text):
        return _plain_number(number)
    text = _with_fraction(text)
    return text[1:] if text[:1] == "+" and text != "+" else text


def _plain_number(number: re.Match[str]) -> str:
    """A match of `_NUMBER` without commas, plus, and zeros that say nothing; `-0` is `0`."""
    whole = number[2].replace(",", "").lstrip("0") or "0"
    decimals = (number[3] or "").rstrip("0")
    digits = f"{whole}.{decimals}" if decimals else whole
    return f"-{digits}" if number[1] == "-" and digits != "0" else digits


def _with_fraction(text: str) -> str:
    r"""A text that is one fraction, or a mixed number, as `\frac{}{}` with its sign in front; any other unchanged."""
    bracketed = _BRACKETED_SLASHED.fullmatch(text)
    if bracketed is not None:
        text = f"{bracketed[1]}/{bracketed[2]}"
    slashed = _SLASHED.fullmatch(text)
    if slashed is not None:
        text = rf"{slashed[1]}{slashed[2] or ''}\frac{{{slashed[3]}}}{{{slashed[4]}}}"
    fraction = _FRACTION.fullmatch(text)
    if fraction is not None:
        sign = "-" if _is_negative(fraction) else ""
        return rf"{sign}{fraction[2] or ''}\frac{{{fraction[4]}}}{{{fraction[6]}}}"
    symbols = _SYMBOLS_SLASHED.fullmatch(text)
    return text if symbols is None else rf"{symbols[1]}\frac{{{symbols[2]}}}{{{symbols[3]}}}"


def _is_negative(fraction: re.Match[str]) -> bool:
    """Whether a match of `_FRACTION` has an odd number of minus signs."""
    return [fraction[place] for place in (1, 3, 5)].count("-") % 2 == 1


def _without_degrees(text: str) -> str:
    """Without dollar signs and the degrees of every number in it: `(45^{\\circ}, 60^{\\circ})` is `(45, 60)`."""
    text = re.sub(r"\\?\$", "", text)
    return re.sub(r"(?<=[0-9}])\s*\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})(?!\s*[A-Za-z])", "", text)


def tidy(text: str) -> str:
    r"""Without what is no part of an answer: spaces in front and behind, of LaTeX (`17\ `), too; full stops, commas and
    line breaks at the end; dollar signs around the whole; colours and sizes of letters. `\degree` is `^\circ`."""
    text = _DEGREE.sub(r"^\\circ ", _SWITCHES.sub("", text))
    before = None
    while text != before:
        before = text
        front = _SPACES_IN_FRONT.match(text)
        text = text[front.end() if front is not None else 0 :].rstrip(_END)
        for space in _SPACES_BEHIND:
            text = text.removesuffix(space)
        if len(text) > 1 and text[0] == text[-1] == "$" and "$" not in text[1:-1]:
            text = text[1:-1]
    return text


def with_powers(text: str) -> str:
    """`4.5e33`, `4.5 x 10^33` and `5 million`, which math-verify does not read, as `4.5 \\times 10^{33}` and the like;
    `2^-3` as `2^{-3}`."""
    text = _NUMBER_WORD.sub(_power_of_word, text)
    text = _POWER.sub(r"\1 \\times 10^{\2}", text)
    text = _TIMES_TEN.sub(r" \\times 10^", text)
    return _NEGATIVE_POWER.sub(r"^{-\1}", text)


def _power_of_word(match: re.Match[str]) -> str:
    """The power of ten for a match of `_NUMBER_WORD`, and what is left of the letter style around the word."""
    style, word, closing = match.groups()
    # `\\text{ million dollars}`: the style goes on behind the word.
    left = "" if style and closing else style or closing or ""
    return rf" \times 10^{{{_POWERS_OF_WORDS[word]}}}{left}"


def undecorated(text: str) -> str:
    r"""`tidy`, and without letter styles, formula marks, `\boxed`, stars or braces around the whole."""
    before = None
    while text != before:
        before = text
        text = without_styles(tidy(text))
        for opening, closing in _BRACKETS_AROUND:
            inner = text[len(opening) : len(text) - len(closing)]
            around = text.startswith(opening) and text.endswith(closing) and len(text) > len(opening + closing)
            if around and opening not in inner and _braces_match(inner):
                text = inner
    return text


def without_styles(text: str) -> str:
    """`\\text{...}` and the like as what stands in them, `x^{2}` as `x^2`."""
    return _SINGLE.sub(r"\1\2", STYLED.sub(_unstyled, text))


def _unstyled(match: re.Match[str]) -> str:
    # Behind a command its name must not go on: `^\\circ\\text{C}` is no `\\circC`.
    behind_command = _COMMAND_AT_END.search(match.string, max(match.start() - 30, 0), match.start())
    return f" {match[1]}" if behind_command and match[1][:1].isalpha() else match[1]


def _braces_match(text: str) -> bool:
    """Whether every brace of a text closes one that it opens."""
    depth = 0
    for sign in text.replace(r"\{", "").replace(r"\}", ""):
        depth += (sign == "{") - (sign == "}")
        if depth < 0:
            return False
    return depth == 0


# --- what a form says -------------------------------------------------------------------------------------------------


def choice_letter(text: str, *, loosely: bool = False) -> str | None:
    """The letter that an answer to a multiple-choice question names: of `(B)`, `B.`, `Option B`, `(B) 42`; else None.

    Args:
        loosely: also of `B. 42` and `B: 42`, where it is known that a letter is asked for.
    """
    text = undecorated(text)
    bare = _BARE_LETTER.fullmatch(text)
    if bare is not None:
        return bare[1]
    found = _LETTER_AND_TEXT.fullmatch(text)
    if found is None and loosely:
        found = _LOOSE_LETTER_AND_TEXT.fullmatch(text)
    return None if found is None or _ANOTHER_LETTER.search(found[2]) else found[1]


def in_base(text: str) -> tuple[str, int] | None:
    """The digits and the base of a number that says its base (`23_6`, `23_{\\text{six}}`, `23 base 6`); else None."""
    found = _IN_BASE.fullmatch(undecorated(text))
    if found is None:
        return None
    said = found[2] or found[3] or found[4]
    base = int(said) if said.isdigit() else _BASES.get(said, 0)
    digits = found[1].lstrip("0") or "0"
    return (digits, base) if 1 < base <= 36 and all(int(digit, 36) < base for digit in digits) else None


def integer(text: str) -> str | None:
    """The digits of an integer of any length, however it is written (`+1,234.0`, `007`), with a minus; else None."""
    found = _WRITTEN_INTEGER.fullmatch(text)
    if found is None:
        return None
    digits = re.sub(r"[^0-9]", "", found[2]).lstrip("0")
    if not digits:
        return "0"
    return f"-{digits}" if found[1] == "-" else digits


def exact_value(form: str) -> Fraction | None:
    """The value of a normal form that is a plain or repeating number, fraction, mixed number or power of ten; else
    None."""
    if len(form) > _MOST_DIGITS:
        return None
    number = _NUMBER.fullmatch(form)
    if number is not None and any(sign.isdigit() for sign in form) and "," not in form:
        return Fraction(f"0{form}" if form[0] == "." else form.rstrip("."))
    scientific = _SCIENTIFIC.fullmatch(form)
    if scientific is not None:
        return Fraction(scientific[1]) * Fraction(10) ** int(scientific[2] or scientific[3])
    repeating = _REPEATING.fullmatch(form)
    if repeating is not None:
        return _repeating_value(repeating)
    fraction = _FRACTION.fullmatch(form)
    return None if fraction is None else _fraction_value(fraction)


def _repeating_value(repeating: re.Match[str]) -> Fraction:
    r"""The value of a match of `_REPEATING`: 0.1\overline{6} = 0.1 + 0.06 / (1 - 1/10) = 0.1 + 6 / (10 (10 - 1))."""
    sign, whole, once, repeated = repeating.groups()
    tail = Fraction(int(repeated), 10 ** len(once) * (10 ** len(repeated) - 1))
    size = Fraction(f"{whole or 0}.{once or 0}") + tail
    return -size if sign else size


def _fraction_value(fraction: re.Match[str]) -> Fraction | None:
    """The value of a match of `_FRACTION`; None where it divides by zero or is no mixed number (`4 10/3`)."""
    above = int(fraction[4])
    below = int(fraction[6])
    if below == 0:
        return None
    if fraction[2] and (above >= below or fraction[3] or fraction[5]):
        return None
    size = int(fraction[2] or 0) + Fraction(above, below)
    return -size if _is_negative(fraction) else size


def is_mathematical(answer: str) -> bool:
    """Whether an answer is a number, a letter to choose or a formula, rather than words that only a reader compares."""
    form = normal_form(answer)
    if not form or len(form) > 200 or "\n" in form:
        return False
    number, _ = split_unit(form)
    if exact_value(number) is not None or choice_letter(form) or form in WORDS:
        return True
    without_commands = re.sub(r"\\[A-Za-z]+", " ", form)
    words = re.findall(r"[^\W\d_]{2,}", without_commands)
    return _FUNCTIONS.issuperset(words)
