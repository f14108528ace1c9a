"""Inequalities as the intervals that they describe: `1<x\\le 3` is `(1,3]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from geoalign.answers.forms import normal_form

_VARIABLE = r"[A-Za-z](?:_[A-Za-z0-9]|_\{[A-Za-z0-9]+\})?|\\(?:alpha|beta|gamma|delta|theta|lambda|mu|phi|omega)"
_RELATION = re.compile(r"(<|>|\\le(?![A-Za-z])|\\ge(?![A-Za-z]))")
_FLIPPED = {">": "<", r"\ge": r"\le"}
_OR = re.compile(r"\s*(?:(?<![A-Za-z\\])or(?![A-Za-z])|\\lor(?![A-Za-z])|\\vee(?![A-Za-z]))\s*")
_INTERVALS = re.compile(r"[(\[].*,.*[)\]]", re.DOTALL)
_ELEMENT = re.compile(rf"({_VARIABLE})\\in(?![A-Za-z])\s*(.+)")


@dataclass(frozen=True)
class _Described:
    """A set of numbers, as intervals with `\\cup` between them, and the unknown that it is said of ("" for none)."""

    unknown: str
    intervals: str


def as_intervals(gold: str, answer: str) -> tuple[str, str]:
    r"""Both answers as intervals where both say a set of numbers, and one of them in another way than as an interval.

    Read are `x>2`, `1<x\le3`, `x<1` or `x>2`, and `x\in(1,3]`. Inequalities of two unknowns, and whatever else, come
    back as they are.
    """
    expected = _described(gold)
    given = _described(answer)
    if expected is None or given is None:
        return gold, answer
    if expected.unknown and given.unknown and expected.unknown != given.unknown:
        return gold, answer
    if not expected.unknown and not given.unknown:
        return gold, answer
    return expected.intervals, given.intervals


def _described(text: str) -> _Described | None:
    """The set of numbers that an answer says; None for any other answer."""
    form = normal_form(text)
    if _INTERVALS.fullmatch(form) and not _RELATION.search(form):
        return _Described(unknown="", intervals=form)
    element = _ELEMENT.fullmatch(form)
    if element is not None:
        inner = _described(element[2])
        return None if inner is None or inner.unknown else _Described(unknown=element[1], intervals=inner.intervals)
    found = []
    for part in _OR.split(form):
        inequality = _inequality(part)
        if inequality is None:
            return None
        found.append(inequality)
    if len({inequality.unknown for inequality in found}) != 1:
        return None
    return _Described(unknown=found[0].unknown, intervals=r"\cup".join(part.intervals for part in found))


def _inequality(text: str) -> _Described | None:
    r"""The interval of one inequality, such as `x<2`, `2\le x` or `1<x\le3`; None for any other text."""
    tokens = [token.strip() for token in _RELATION.split(text)]
    if len(tokens) not in (3, 5) or not all(tokens):
        return None
    if tokens[1] in _FLIPPED:
        tokens = [_FLIPPED.get(token, token) for token in reversed(tokens)]
    relations = tokens[1::2]
    sides = tokens[::2]
    if not all(relation in ("<", r"\le") for relation in relations):
        return None
    places = [place for place, side in enumerate(sides) if re.fullmatch(_VARIABLE, side)]
    if len(places) != 1 or any(sign in side for side in sides for sign in ",;="):
        return None
    place = places[0]
    unknown = sides[place]
    if len(sides) == 3 and place != 1:
        return None
    if any(_mentions(side, unknown) for side in (*sides[:place], *sides[place + 1 :])):
        return None
    lower = r"(-\infty"
    if place > 0:
        bracket = "(" if relations[place - 1] == "<" else "["
        lower = f"{bracket}{sides[place - 1]}"
    upper = r"\infty)"
    if place + 1 < len(sides):
        bracket = ")" if relations[place] == "<" else "]"
        upper = f"{sides[place + 1]}{bracket}"
    return _Described(unknown=unknown, intervals=f"{lower},{upper}")


def _mentions(side: str, unknown: str) -> bool:
    """Whether an unknown stands in a side of an inequality, other than as a letter of a command's name."""
    return unknown in side if unknown.startswith("\\") else unknown in re.sub(r"\\[A-Za-z]+", "", side)
