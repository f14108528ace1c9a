"""One normal form of a final answer, by its text alone: equal forms are taken for equal answers.

Degrees and dollar signs are dropped. Equal values may still differ in form, as 1/2 and 0.5 do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from geoalign.answers.signs import LONGEST, plain_signs
from geoalign.answers.units import STYLED, split_unit

# What an answer may end in: full stops and space, of every kind that `str.strip` takes off.
_END = "." + "".join(sign for sign in map(chr, range(0x3001)) if sign.isspace())
_SINGLE = re.compile(r"([_^])\{\s*([A-Za-z0-9])\s*\}")

# 1234, 1,234, 025, 27.0, .5: a number in digits, thousands in groups of three. `0,123` is none.
_NUMBER = re.compile(r"([+-]?)([1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]*)(?:\.([0-9]*))?")
_FRACTION = re.compile(r"([+-]?)(?:([0-9]+)\s*(?:\\[,;: ])?\s*)?\\frac\{([+-]?)([0-9]+)\}\{([+-]?)([0-9]+)\}")
_SLASHED = re.compile(r"([+-]?)(?:([0-9]+)(?:\s+|\s*\\[,;: ]\s*))?([0-9]+)\s*/\s*([0-9]+)")
_TOKENS_SLASHED = re.compile(r"([+-]?)(\\[A-Za-z]+|[A-Za-z]|[0-9]+)/(\\[A-Za-z]+|[A-Za-z]|[0-9]+)")
_SCIENTIFIC = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)\\times10\^(?:([0-9])|\{(-?[0-9]{1,3})\})")
# 4.5e33, 3e6, 1e-5; larger powers are no answers.
_POWER = re.compile(r"(?<![\w.\\])([0-9]{1,100}\.?[0-9]{0,100})[eE]([+-]?[0-9]{1,3})(?![\w.])")
_TIMES_TEN = re.compile(r"(?<=[0-9])\s{0,4}(?:x|X|\*)\s{0,4}10\s{0,4}\^")
_NEGATIVE_POWER = re.compile(r"\^\s{0,4}-\s{0,4}([0-9]{1,30})")
_NUMBERS_IN_BASES = re.compile(r"(?<![0-9A-Za-z}])([0-9]{1,100})\)?_(?:([0-9])|\{\s*\(?([0-9]{1,2})\)?\s*\})")
# An integer that is in its normal form.
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,99}")
# Longer numbers are compared as text.
_MOST_DIGITS = 400

_THOUSANDS = re.compile(r"(?<=[0-9])(?:\\[,;: ]|~|\{,\}|,\\!|\{\\,\})(?=[0-9]{3}(?![0-9]))")
_SPELLINGS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"\\(?:left|right|[bB]igg?[lr]?|displaystyle|textstyle|limits)(?![A-Za-z])", ""),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\leq(?:slant)?(?![A-Za-z])", r"\\le"),
        (r"\\geq(?:slant)?(?![A-Za-z])", r"\\ge"),
        (r"\\neq(?![A-Za-z])", r"\\ne"),
        (r"\\lt(?![A-Za-z])", "<"),
        (r"\\gt(?![A-Za-z])", ">"),
        (r"\\varnothing(?![A-Za-z])", r"\\emptyset"),
        (r"\\lbrace(?![A-Za-z])", r"\\{"),
        (r"\\rbrace(?![A-Za-z])", r"\\}"),
        (r"\{,\}", ","),
        (r"\{\s*\}", ""),
        (r"\\!", ""),
        (r"\\[,;:> ]|~|\\q?quad(?![A-Za-z])", " "),
        (r"\\(?:cdot|times)\s*(?=10\s*\^)", r"\\times"),
        (r"\\frac(?![A-Za-z])\s*([0-9A-Za-z]|\\[A-Za-z]+)\s*(?=[{0-9A-Za-z\\])", r"\\frac{\1}"),
        (r"(\\frac\{[^{}]*\})\s*([0-9](?![0-9])|[A-Za-z]|\\[A-Za-z]+)", r"\1{\2}"),
        (r"\\sqrt(\[[0-9]+\])?\s*([0-9A-Za-z])", r"\\sqrt\1{\2}"),
        (r"([(\[{,=])\s*\+", r"\1"),
        (r"\s+", " "),
        (r"(\\[A-Za-z]+) (?![A-Za-z])", r"\1"),
        (r"(?<=[0-9]), (?=[0-9]{3}(?![0-9]))", ", \x00"),
        (r"(?<![0-9A-Za-z]) (?!\x00)| (?![0-9A-Za-z\x00])", ""),
        (r"\x00", ""),
        (r"(?<=[0-9]) (?=[A-Za-z](?![A-Za-z]))", ""),
    )
)

_WORDS = ("yes", "no", "true", "false")
_MARK = r"(?:(?:[Oo]ption|[Cc]hoice|[Aa]nswer)\s*:?\s*)?"
_BARE_LETTER = re.compile(rf"{_MARK}[(\[{{]?\s*([A-Z])\s*[)\]}}]?\s*[.:]?")
_LETTER_AND_TEXT = re.compile(
    rf"{_MARK}\(?([A-J])\)(?:\s|\\[ ,;:]|~|\\q?quad(?![A-Za-z]))+(?![-+*/=<>^_]\s)(\S.*)", re.DOTALL
)
_LOOSE_LETTER_AND_TEXT = re.compile(r"([A-J])[.:]\s+(\S.*)", re.DOTALL)
_ANOTHER_LETTER = re.compile(r"\(?[A-Z][).:]")
_WRAPPED = re.compile(r"\(\s*([A-Za-z]|[-+]?[0-9]+(?:\.[0-9]+)?)\s*\)")
_BASES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11,
    "twelve": 12, "sixteen": 16,
}  # fmt: skip
_BASE = r"(?:base[- ]?)?\s*([0-9]{1,2}|[a-z]{3,7})"
_IN_BASE = re.compile(
    r"\(?([0-9][0-9A-Z]*|[A-F]{1,20})\)?\s*"
    rf"(?:_\s*(?:([0-9])|\{{\s*\(?{_BASE}\)?\s*\}})|,?\s*(?:in\s+)?\(?base[- ]{_BASE}\)?)"
)


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
    for _ in range(4):
        before, text = text, _respelt(text)
        if text == before:
            break
    return text


def tidy(text: str) -> str:
    """Without outer spaces, full stops at the end, or the dollar signs around the whole, however they follow."""
    before = None
    while text != before:
        before, text = text, text.lstrip().rstrip(_END)
        if len(text) > 1 and text[0] == text[-1] == "$" and "$" not in text[1:-1]:
            text = text[1:-1]
    return text


def with_powers(text: str) -> str:
    """`4.5e33` and `4.5 x 10^33`, which math-verify does not read, as `4.5 \\times 10^{33}`; `2^-3` as `2^{-3}`."""
    text = _POWER.sub(r"\1 \\times 10^{\2}", text)
    text = _TIMES_TEN.sub(r" \\times 10^", text)
    return _NEGATIVE_POWER.sub(r"^{-\1}", text)


def undecorated(text: str) -> str:
    r"""`tidy`, and without letter styles, formula marks, `\boxed`, stars or braces around the whole."""
    before = None
    while text != before:
        before = text
        text = without_styles(tidy(text))
        for opening, closing in (
            (r"\(", r"\)"),
            (r"\[", r"\]"),
            ("**", "**"),
            ("$$", "$$"),
            ("{", "}"),
            (r"\boxed{", "}"),
        ):
            inner = text[len(opening) : len(text) - len(closing)]
            if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening + closing):
                text = inner if _closed(inner) and opening not in inner else text
    return text


def without_styles(text: str) -> str:
    """`\\text{...}` and the like as what stands in them, `x^{2}` as `x^2`."""
    return _SINGLE.sub(r"\1\2", STYLED.sub(r"\1", text))


def bare_letter(text: str) -> str | None:
    """The letter that an answer is, with nothing but decoration around it: of `(B)`, `B.`, `\\textbf{B}`; else None."""
    bare = _BARE_LETTER.fullmatch(undecorated(text))
    return None if bare is None else bare[1]


def choice_letter(text: str, *, with_text: bool = False) -> str | None:
    """The letter that an answer to a multiple-choice question names: of `(B)`, `B.`, `Option B`, `(B) 42`; else None.

    Args:
        with_text: also of `B. 42` and `B: 42`, where it is known that a letter is asked for.
    """
    text = undecorated(text)
    bare = bare_letter(text)
    if bare is not None:
        return bare
    for pattern in (_LETTER_AND_TEXT, *((_LOOSE_LETTER_AND_TEXT,) if with_text else ())):
        found = pattern.fullmatch(text)
        if found is not None and not _ANOTHER_LETTER.search(found[2]):
            return found[1]
    return None


def in_base(text: str) -> tuple[str, int] | None:
    """The digits and the base of a number that says its base (`23_6`, `23_{\\text{six}}`, `23 base 6`); else None."""
    found = _IN_BASE.fullmatch(undecorated(text))
    if found is None:
        return None
    said = found[2] or found[3] or found[4]
    base = int(said) if said.isdigit() else _BASES.get(said, 0)
    digits = found[1].lstrip("0") or "0"
    return (digits, base) if 1 < base <= 36 and all(int(digit, 36) < base for digit in digits) else None


def numbers_in_bases(text: str) -> list[tuple[str, str]]:
    """The digits and bases of all numbers in an answer that say their base, sorted."""
    return sorted((digits, short or long) for digits, short, long in _NUMBERS_IN_BASES.findall(text))


def exact_value(form: str) -> Fraction | None:
    """The value of a normal form that is a plain number, fraction, mixed number or power of ten; None for others."""
    if len(form) > _MOST_DIGITS:
        return None
    number = _NUMBER.fullmatch(form)
    if number is not None and any(sign.isdigit() for sign in form) and "," not in form:
        return Fraction(f"0{form}" if form[0] == "." else form.rstrip("."))
    scientific = _SCIENTIFIC.fullmatch(form)
    if scientific is not None:
        return Fraction(scientific[1]) * Fraction(10) ** int(scientific[2] or scientific[3])
    fraction = _FRACTION.fullmatch(form)
    if fraction is None or not int(fraction[6]):
        return None
    above, below = int(fraction[4]), int(fraction[6])
    if fraction[2] and (above >= below or fraction[3] or fraction[5]):
        return None
    value = int(fraction[2] or 0) + Fraction(above, below)
    negative = [fraction[place] for place in (1, 3, 5)].count("-") % 2
    return -value if negative else value


def is_mathematical(answer: str) -> bool:
    """Whether an answer is a number, a letter to choose or a formula, rather than words that only a reader compares."""
    form = normal_form(answer)
    if not form or len(form) > 200 or "\n" in form:
        return False
    number, _ = split_unit(form)
    if exact_value(number) is not None or choice_letter(form) or form in _WORDS:
        return True
    letters = re.sub(r"\\[A-Za-z]+", " ", form)
    words = [word for word in re.findall(r"[^\W\d_]{2,}", letters) if word not in _FUNCTIONS]
    return not words


_FUNCTIONS = {
    "sin",
    "cos",
    "tan",
    "cot",
    "sec",
    "csc",
    "log",
    "ln",
    "exp",
    "max",
    "min",
    "mod",
    "gcd",
    "lcm",
    "and",
    "or",
    "sqrt",
    "pi",
}


def _respelt(text: str) -> str:
    text = with_powers(undecorated(plain_signs(text)))
    if text.lower() in _WORDS:
        return text.lower()
    letter = choice_letter(text)
    if letter is not None:
        return letter
    based = in_base(text)
    if based is not None:
        digits, base = based
        return digits if base == 10 else f"{digits}_{base}" if base < 10 else f"{digits}_{{{base}}}"
    text = _THOUSANDS.sub(",", text)
    number, unit = split_unit(text)
    if unit in ("degree", "dollar", ""):
        return _value(_without_degrees(number))
    return _value(number) + (r"\%" if unit == "%" else f" {unit}")


def _without_degrees(text: str) -> str:
    """Without dollar signs and the degrees of every number in it: `(45^{\\circ}, 60^{\\circ})` is `(45, 60)`."""
    text = re.sub(r"\\?\$", "", text)
    return re.sub(r"(?<=[0-9}])\s*\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})(?!\s*[A-Za-z])", "", text)


def _value(text: str) -> str:
    """An answer without its unit in one spelling."""
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    text = _SINGLE.sub(r"\1\2", text.strip())
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped is not None:
        text = wrapped[1]
    number = _NUMBER.fullmatch(text)
    if number is not None and any(sign.isdigit() for sign in text):
        return _canonical(number)
    slashed = _SLASHED.fullmatch(text)
    if slashed is not None:
        text = rf"{slashed[1]}{slashed[2] or ''}\frac{{{slashed[3]}}}{{{slashed[4]}}}"
    fraction = _FRACTION.fullmatch(text)
    if fraction is not None:
        negative = [fraction[place] for place in (1, 3, 5)].count("-") % 2
        whole = fraction[2] or ""
        return rf"{'-' if negative else ''}{whole}\frac{{{fraction[4]}}}{{{fraction[6]}}}"
    tokens = _TOKENS_SLASHED.fullmatch(text)
    if tokens is not None:
        text = rf"{tokens[1]}\frac{{{tokens[2]}}}{{{tokens[3]}}}"
    return text[1:] if text[:1] == "+" and text != "+" else text


def _canonical(number: re.Match[str]) -> str:
    whole = number[2].replace(",", "").lstrip("0") or "0"
    decimals = (number[3] or "").rstrip("0")
    digits = f"{whole}.{decimals}" if decimals else whole
    return f"-{digits}" if number[1] == "-" and digits != "0" else digits


def _closed(text: str) -> bool:
    """Whether no brace of a text closes one that was open before it."""
    depth = 0
    for sign in text.replace(r"\{", "").replace(r"\}", ""):
        depth += (sign == "{") - (sign == "}")
        if depth < 0:
            return False
    return depth == 0
