"""Answers as text: normalised, and compared where equality is plain; math-verify decides on the rest."""

from __future__ import annotations

import re

from geoalign.boxed import boxed_answer

# 1234, 1,234, 1{,}234, 025, 27.0: an integer, however written.
_INTEGER = re.compile(r"([+-]?)([0-9]{1,3}(?:(?:,|\{,\})[0-9]{3})+|[0-9]+)(?:\.0*)?")

# 4.5e33, 3e6, 1e-5; larger powers are no answers.
_POWER = re.compile(r"(?<![\w.\\])([0-9]{1,100}\.?[0-9]{0,100})[eE]([+-]?[0-9]{1,3})(?![\w.])")

# What an answer may end in: full stops and space, of every kind that `str.strip` takes off.
_END = "." + "".join(sign for sign in map(chr, range(0x3001)) if sign.isspace())

# Sizes of brackets, dollar signs and spaces, unless these divide two numbers, are no part of an answer.
_NOTHING = re.compile(r"\\(?:left|right|displaystyle)(?![A-Za-z])|\\?\$|\\[,!;:]|(?<![0-9\s])\s+|(?<!\s)\s+(?![0-9\s])")
_STYLED = re.compile(r"\\(?:text(?:bf|rm|it)?|math(?:rm|bf|it)|mbox|operatorname)\s*\{([^{}]*)\}")
# x^{2} is x^2, and k_{B} is k_B.
_SINGLE = re.compile(r"([_^])\{\s*([A-Za-z0-9])\s*\}")
# A quantity whose name math-verify does not know, such as I_{\max}, n_\gamma(\nu).
_NAME = re.compile(r"\\?[A-Za-z]+(?:_(?:\\?\w+|\{[^{}]*\}))?(?:\([^()=]*\))?")


def final_answer(response: str) -> str | None:
    """The answer of a response in one form: its last box or list of boxes; None where none is, or an empty one.

    Without outer spaces, full stop or dollar signs; integers without plus sign, leading zeros, thousands commas or a
    decimal part of zeros. Equal forms are equal answers, but equal answers may differ in form: `1/2` and `0.5`.
    """
    return one_form(boxed_answer(response) or "") or None


def one_form(answer: str) -> str:
    """An answer alone in the form of `final_answer`."""
    answer = tidy(answer)
    integer = _INTEGER.fullmatch(answer)
    return answer if integer is None else _canonical(integer)


def quick_verdict(gold: str, answer: str) -> bool | None:
    """Whether two answers are equal where that is plain (two integers of any form, or equal but for spaces, sizes of
    brackets, dollar signs and letter styles), without computer algebra; None where it is not.
    """
    expected, given = _INTEGER.fullmatch(gold), _INTEGER.fullmatch(answer)
    if expected is not None and given is not None:
        return _canonical(expected) == _canonical(given)
    return True if gold == answer or plain(gold) == plain(answer) else None


def with_powers(text: str) -> str:
    """4.5e33, which math-verify does not read, as `4.5 \\times 10^{33}`."""
    return _POWER.sub(r"\1 \\times 10^{\2}", text)


def tidy(text: str) -> str:
    """Without outer spaces, full stops at the end, or the dollar signs around the whole, however they follow."""
    before = None
    while text != before:
        before, text = text, text.lstrip().rstrip(_END)
        if len(text) > 1 and text[0] == text[-1] == "$" and "$" not in text[1:-1]:
            text = text[1:-1]
    return text


def plain(text: str) -> str:
    """Without spaces, bracket sizes, dollar signs and letter styles; equal texts are equal answers."""
    spaced = _without_styles(text).replace(r"\qquad", " ").replace(r"\quad", " ")
    return _NOTHING.sub("", spaced).replace(r"\dfrac", r"\frac")


def _without_styles(text: str) -> str:
    return _SINGLE.sub(r"\1\2", _STYLED.sub(r"\1", text))


def without_name(gold: str, answer: str) -> tuple[str, str]:
    """Both answers without the name that the gold one has, where the other has it or none: `I_{\\max}=q` is `q`."""
    (name, value), (other, given) = _named(gold), _named(answer)
    same = name and (other == name or (not other and "=" not in given))
    return (value, given) if same else (gold, answer)


def _named(text: str) -> tuple[str, str]:
    left, _, value = _without_styles(text).partition("=")
    name = plain(left)
    named = value and "=" not in value and "\\" in name and _NAME.fullmatch(name)
    return (name.replace("{", "").replace("}", ""), value) if named else ("", text)


def _canonical(integer: re.Match[str]) -> str:
    digits = re.sub(r"[^0-9]", "", integer[2]).lstrip("0")
    return ("-" if integer[1] == "-" else "") + digits if digits else "0"
