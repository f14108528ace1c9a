"""Inequalities as the intervals that they describe: `1<x\\le 3` is `(1,3]`."""

from __future__ import annotations

import re
from typing import NamedTuple

from geoalign.answers.forms import normal_form

_VARIABLE = r"[A-Za-z](?:_[A-Za-z0-9]|_\{[A-Za-z0-9]+\})?|\\(?:alpha|beta|gamma|delta|theta|lambda|mu|phi|omega)"
_RELATION = re.compile(r"(<=|>=|<|>|\\le(?![A-Za-z])|\\ge(?![A-Za-z]))")
_FLIPPED = {">": "<", ">=": "<=", r"\ge": r"\le"}
_OR = re.compile(r"\s*(?:(?<![A-Za-z\\])or(?![A-Za-z])|\\lor(?![A-Za-z])|\\vee(?![A-Za-z]))\s*")
_AND = re.compile(r"\s*(?:(?<![A-Za-z\\])and(?![A-Za-z])|\\land(?![A-Za-z])|\\wedge(?![A-Za-z]))\s*")
_ELEMENT = re.compile(rf"({_VARIABLE})\\in(?![A-Za-z])\s*(.+)")
_UNEQUAL = re.compile(rf"({_VARIABLE})\\ne(?![A-Za-z])\s*([^,;<>=]+)")
_SET = re.compile(rf"\\\{{({_VARIABLE})(?::|\||\\mid(?![A-Za-z]))\s*([^{{}}]+)\\\}}")
_OUTWARD = re.compile(r"([\[\]])([^,;\[\]]+)[,;]([^,;\[\]]+)([\[\]])")


class _Described(NamedTuple):
    """A set of numbers, as intervals with `\\cup` between them, and the unknown that it is said of ("" for none)."""

    unknown: str
    intervals: str


def as_intervals(gold: str, answer: str) -> tuple[str, str]:
    r"""Both answers as intervals where both say a set of numbers, and one of them in another way than as an interval.

    Read are `x>2`, `1<x\le3`, `x<1` or `x>2`, `x>1` and `x<3`, `x\ne2`, `x\in(1,3]`, `\{x:x>2\}` and `]1,3[`.
    Inequalities of two unknowns, and whatever else, come back as they are.
    """
    expected, given = _described(gold), _described(answer)
    if expected is None or given is None:
        return gold, answer
    if (expected.intervals, given.intervals) == (normal_form(gold), normal_form(answer)):
        return gold, answer
    if expected.unknown and given.unknown and expected.unknown != given.unknown:
        return gold, answer
    return expected.intervals, given.intervals


def _described(text: str) -> _Described | None:
    form = normal_form(text)
    outward = _OUTWARD.fullmatch(form)
    if outward is not None and (outward[1] == "]" or outward[4] == "["):
        left = "(" if outward[1] == "]" else "["
        right = ")" if outward[4] == "[" else "]"
        return _Described("", f"{left}{outward[2]},{outward[3]}{right}")
    if form[:1] in ("(", "[") and form[-1:] in (")", "]") and "," in form and not _RELATION.search(form):
        return _Described("", form)
    said_of = _SET.fullmatch(form)
    if said_of is not None:
        inner = _described(said_of[2])
        return inner if inner is not None and inner.unknown in ("", said_of[1]) else None
    element = _ELEMENT.fullmatch(form)
    if element is not None:
        inner = _described(element[2])
        return None if inner is None or inner.unknown else _Described(element[1], inner.intervals)
    unequal = _UNEQUAL.fullmatch(form)
    if unequal is not None:
        return _Described(unequal[1], rf"(-\infty,{unequal[2]})\cup({unequal[2]},\infty)")
    parts = [_conjunction(part) for part in _OR.split(form)]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts) or len({part.unknown for part in found}) != 1:
        return None
    return _Described(found[0].unknown, r"\cup".join(part.intervals for part in found))


def _conjunction(text: str) -> _Described | None:
    """One inequality or chain, or a lower and an upper bound with "and" between them."""
    bounds = [_bounds(part) for part in _AND.split(text)]
    found = [bound for bound in bounds if bound is not None]
    if len(found) < len(bounds) or len({unknown for unknown, _, _ in found}) != 1:
        return None
    lower = [bound for _, bound, _ in found if bound]
    upper = [bound for _, _, bound in found if bound]
    if len(lower) > 1 or len(upper) > 1:
        return None
    left = lower[0] if lower else r"(-\infty"
    right = upper[0] if upper else r"\infty)"
    return _Described(found[0][0], f"{left},{right}")


def _bounds(text: str) -> tuple[str, str, str] | None:
    """The unknown of an inequality, its lower and its upper bound, each with its bracket or "" where there is none."""
    tokens = [token.strip() for token in _RELATION.split(text)]
    if len(tokens) not in (3, 5) or not all(tokens):
        return None
    if tokens[1] in _FLIPPED:
        tokens = [_FLIPPED.get(token, token) for token in reversed(tokens)]
    relations, sides = tokens[1::2], tokens[::2]
    if not all(relation in ("<", "<=", r"\le") for relation in relations):
        return None
    is_unknown = [re.fullmatch(_VARIABLE, side) is not None for side in sides]
    if is_unknown.count(True) != 1 or any(sign in side for side in sides for sign in ",;="):
        return None
    place = is_unknown.index(True)
    if len(sides) == 3 and place != 1:
        return None
    unknown = sides[place]
    if any(_mentions(side, unknown) for at, side in enumerate(sides) if at != place):
        return None
    lower = f"{'(' if relations[place - 1] == '<' else '['}{sides[place - 1]}" if place else ""
    upper = f"{sides[place + 1]}{')' if relations[place] == '<' else ']'}" if place + 1 < len(sides) else ""
    return unknown, lower, upper


def _mentions(side: str, unknown: str) -> bool:
    """Whether an unknown stands in a side of an inequality, other than as a letter of a command's name."""
    return unknown in side if unknown.startswith("\\") else unknown in re.sub(r"\\[A-Za-z]+", "", side)
