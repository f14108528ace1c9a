"""Answers as text: in one form where that is plain, compared where that is plain."""

from __future__ import annotations

import re

from geoalign.boxed import boxed_answer
from geoalign.lab.rewards.exact import exact_verdict
from geoalign.lab.rewards.notation import tokens

# 1234, 1,234, 1{,}234, 025, 27.0: an integer, however written.
_INTEGER = re.compile(r"([+-]?)([0-9]{1,3}(?:(?:,|\{,\})[0-9]{3})+|[0-9]+)(?:\.0*)?")

# What an answer may end in: full stops and space, of every kind that `str.strip` takes off.
_END = "." + "".join(sign for sign in map(chr, range(0x3001)) if sign.isspace())


def final_answer(response: str) -> str | None:
    """The answer of a response in one form: its last box or list of boxes; None where none is, or an empty one.

    Without outer spaces, full stop or dollar signs; integers without plus sign, leading zeros, thousands commas or a
    decimal part of zeros. Equal forms are equal answers, but equal answers may differ in form: `1/2` and `0.5`.
    """
    answer = tidy(boxed_answer(response) or "")
    integer = _INTEGER.fullmatch(answer)
    return (answer if integer is None else _canonical(integer)) or None


def quick_verdict(gold: str, answer: str) -> bool | None:
    """Whether two answers are equal where that is plain, without computer algebra; None where it is not.

    Plain are equal strings, two integers (of any length; signs, leading zeros, thousands commas and a decimal part of
    zeros make no difference), the same tokens of LaTeX, and answers of plain numbers (`exact_verdict`).
    """
    if gold == answer:
        return True
    expected, given = _INTEGER.fullmatch(gold), _INTEGER.fullmatch(answer)
    if expected is not None and given is not None:
        return _canonical(expected) == _canonical(given)
    if tokens(gold) == tokens(answer):
        return True
    return exact_verdict(gold, answer)


def tidy(text: str) -> str:
    """Without outer spaces, full stops at the end, or the dollar signs around the whole, however they follow."""
    before = None
    while text != before:
        before, text = text, text.lstrip().rstrip(_END)
        if len(text) > 1 and text[0] == text[-1] == "$" and "$" not in text[1:-1]:
            text = text[1:-1]
    return text


def _canonical(integer: re.Match[str]) -> str:
    digits = re.sub(r"[^0-9]", "", integer[2]).lstrip("0")
    return ("-" if integer[1] == "-" else "") + digits if digits else "0"
