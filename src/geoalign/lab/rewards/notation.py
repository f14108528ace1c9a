"""Answers as tokens of LaTeX without what changes nothing, so that two ways to write one answer are one."""

from __future__ import annotations

import re

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
