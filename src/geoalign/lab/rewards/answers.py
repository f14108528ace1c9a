"""Answers as text: in one form where that is plain, compared where that is plain; the rest is math-verify's."""

from __future__ import annotations

import re

from geoalign.boxed import boxed_answer

# 1234, 1,234, 1{,}234, 025, 27.0: an integer, however written.
_INTEGER = re.compile(r"([+-]?)([0-9]{1,3}(?:(?:,|\{,\})[0-9]{3})+|[0-9]+)(?:\.0*)?")

# 4.5e33, 3e6, 1e-5; larger powers are no answers.
_POWER = re.compile(r"(?<![\w.\\])([0-9]{1,100}\.?[0-9]{0,100})[eE]([+-]?[0-9]{1,3})(?![\w.])")

# What an answer may end in: full stops and space, of every kind that `str.strip` takes off.
_END = "." + "".join(sign for sign in map(chr, range(0x3001)) if sign.isspace())


def final_answer(response: str) -> str | None:
    """The answer of a response in one form: its last box or list of boxes; None where none is, or an empty one.

    Without outer spaces, full stop or dollar signs; integers without plus sign, leading zeros, thousands commas or a
    decimal part of zeros. Equal forms are equal answers, but equal answers may differ in form: `1/2` and `0.5`.
    """
    return one_form(boxed_answer(response) or "") or None


def one_form(answer: str) -> str:
    """An answer without outer spaces, full stop or dollar signs, integers in one form, as `final_answer`."""
    answer = tidy(answer)
    integer = _INTEGER.fullmatch(answer)
    return answer if integer is None else _canonical(integer)


def quick_verdict(gold: str, answer: str) -> bool | None:
    """Whether two answers are equal where that is plain, without computer algebra; None where it is not.

    Plain are equal strings, two integers (of any length; signs, leading zeros, thousands commas and a decimal part of
    zeros make no difference), and the same tokens of LaTeX.
    """
    if gold == answer:
        return True
    expected, given = _INTEGER.fullmatch(gold), _INTEGER.fullmatch(answer)
    if expected is not None and given is not None:
        return _canonical(expected) == _canonical(given)
    return True if tokens(gold) == tokens(answer) else None


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


def _canonical(integer: re.Match[str]) -> str:
    digits = re.sub(r"[^0-9]", "", integer[2]).lstrip("0")
    return ("-" if integer[1] == "-" else "") + digits if digits else "0"


# In order: a command, an escaped sign, a number, spaces, any other sign.
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[0-9]+(?:\.[0-9]+)?|\.[0-9]+|\s+|.", re.DOTALL)

# Spaces, sizes of brackets, dollar signs: no part of an answer.
_SIZES = (r"\left", r"\right", r"\big", r"\Big", r"\bigl", r"\bigr", r"\Bigl", r"\Bigr", r"\displaystyle", r"\limits")
_NOTHING = frozenset((*_SIZES, r"\quad", r"\qquad", r"\,", r"\!", r"\;", r"\:", "\\ ", "\\\n", "~", "$", r"\$"))
# Styles of letters; the braces around what they style go with them.
_STYLES = frozenset(
    rf"\{name}"
    for name in ("text", "textbf", "textrm", "textit", "mathrm", "mathbf", "mathit", "mbox", "operatorname", "rm", "bf")
)
_SAME = {
    r"\dfrac": r"\frac",
    r"\tfrac": r"\frac",
    r"\cfrac": r"\frac",
    r"\leqslant": r"\leq",
    r"\le": r"\leq",
    r"\geqslant": r"\geq",
    r"\ge": r"\geq",
    r"\neq": r"\ne",
    r"\degree": r"\circ",
    r"\lbrace": r"\{",
    r"\rbrace": r"\}",
    r"\%": "%",
    "\N{MINUS SIGN}": "-",
    "\N{MULTIPLICATION SIGN}": r"\times",
    "\N{GREEK SMALL LETTER PI}": r"\pi",
}
# A quantity, such as x, I_\max, a_n, f(x), n_\gamma(\nu).
_NAME = re.compile(r"\\?[A-Za-z]+(?: _ (?:\\?\w+|\{[^{}]*\}))?(?: \( [^()=]* \))?")


def tokens(text: str) -> tuple[str, ...]:
    """The tokens of an answer: without spaces, bracket sizes, dollar signs and letter styles, in one spelling.

    Equal tokens are equal answers. A group of one token, as in `x^{2}`, is that token; a number is one token, so that
    spaces between digits still divide.
    """
    kept: list[str] = []
    opened: list[int] = []  # index of each open brace in `kept`; -1 for one that is left out
    styled = False
    for match in _TOKEN.finditer(text.replace("\N{DEGREE SIGN}", r"^\circ")):
        token = _SAME.get(match[0], match[0])
        if token.isspace() or token in _NOTHING:
            continue
        if token in _STYLES:
            styled = True
            continue
        if token == "{":
            opened.append(-1 if styled else len(kept))
        styled_brace, styled = styled and token == "{", False
        if styled_brace:
            continue
        if token == "}" and opened:
            start = opened.pop()
            if start < 0:
                continue
            if start == len(kept) - 2 and _needs_no_braces(kept):
                kept[start:] = [kept[-1]]
                continue
        kept.append(token)
    return tuple(kept)


def values(gold: str, answer: str) -> tuple[str, str] | None:
    """Both answers without the name of the quantity in front, and in one spelling; None where there is no such name.

    `I_{\\max}=q` is q where the other one is no equation, or one for the same quantity. Plain names (x, a_n, f(x)) are
    left alone: math-verify knows them.
    """
    (name, value), (other, given) = _named(gold), _named(answer)
    if "\\" not in name + other:
        return None
    if (name and other and name != other) or (not name and "=" in value) or (not other and "=" in given):
        return None
    return value, given


def _named(text: str) -> tuple[str, str]:
    """The quantity that an answer is for, "" where it names none, and what it is."""
    left, equals, right = " ".join(tokens(text)).partition(" = ")
    if equals and "=" not in right and _NAME.fullmatch(left):
        return left, right
    return "", left + equals + right


def _needs_no_braces(kept: list[str]) -> bool:
    """Whether a group of one token, the last two kept, means the same without braces: no digit joins another."""
    before, inner = kept[-3] if len(kept) > 2 else "", kept[-1]
    if before in ("^", "_"):
        return len(inner) == 1 or inner.startswith("\\")
    return inner.isalpha() and before != "}" and not before.startswith("\\")
