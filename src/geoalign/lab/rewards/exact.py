"""Answers of plain numbers (fractions, decimals, powers of ten; tuples, intervals, lists of them), compared exactly."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

# Longer numbers are left to others: reading digits takes time that grows with the square of their number.
_LONGEST = 200
_MOST_ITEMS = 200
_LARGEST_POWER = 400
_ROUNDING = Fraction(2, 10**6)
_CLEARLY_APART = Fraction(1, 1000)

_DIGITS = r"(?:[0-9]{1,3}(?:(?:,|\{,\})[0-9]{3})+|[0-9]+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.[0-9]*)?|\.[0-9]+)"
_PART = rf"\{{([+-]?{_DECIMAL})\}}"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?:"
    rf"(?P<whole>[0-9]+)?\\frac(?:{_PART}{_PART}|{_PART}([0-9])|([0-9]){_PART}|([0-9])([0-9]))"
    rf"|(?P<top>{_DECIMAL})/(?P<bottom>{_DECIMAL})"
    rf"|(?P<plain>{_DECIMAL})(?:[eE](?P<e>[+-]?[0-9]+)|(?:\\times|\\cdot)10\^(?:\{{(?P<braced>[+-]?[0-9]+)\}}|(?P<bare>[0-9])))?"
    rf")(?:\^\\circ|\^\{{\\circ\}})?"
)
_NAME = re.compile(r"([A-Za-z])=")
# What may stand around numbers and says nothing about them; thin spaces also stand within them.
_THIN = re.compile(r"\\!\s*|\\,|\\left(?![A-Za-z])|\\right(?![A-Za-z])")
_SPACE = re.compile(r"\\[;: ]|~|\s+")
_DIVIDED = re.compile(r"[0-9] +[0-9]")
_FRACTIONS = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_BRACKETS = {"(": ")", "[": "]"}


@dataclass(frozen=True)
class Number:
    """A number; `rounded`: written with a decimal point or a power of ten, so that it may stand for its neighbours."""

    value: Fraction
    rounded: bool


@dataclass(frozen=True)
class Row:
    """Values in brackets, whose order counts, or bare ones with commas between them, whose order does not."""

    opening: str
    closing: str
    items: tuple[Number | Row, ...]


@dataclass(frozen=True)
class Plain:
    """An answer of plain numbers; `name`: x in `x=5`."""

    value: Number | Row
    name: str


def exact_verdict(gold: str, answer: str) -> bool | None:
    """Whether two answers of plain numbers are equal; None where one is not such, or rounding may be meant.

    Exact values are equal or not. Where one is rounded (0.333333 against 1/3), equal values are equal, and values too
    far apart to round to one another are not; anything between is left open. `x=5` is 5, but not `y=5`.
    """
    expected, given = plain(gold), plain(answer)
    if expected is None or given is None or (expected.name and given.name and expected.name != given.name):
        return None
    return _same(expected.value, given.value)


@lru_cache(maxsize=4096)
def plain(text: str) -> Plain | None:
    """The numbers of an answer; None where it is made of anything else."""
    text = _SPACE.sub(" ", _THIN.sub("", _FRACTIONS.sub(r"\\frac", text)))
    if _DIVIDED.search(text):
        return None
    # A comma before a space or between dollar signs divides a list, never thousands.
    text = re.sub(r", |\$ ?, ?\$", ";", text).replace(" ", "").replace(r"\$", "").replace("$", "")
    name = _NAME.match(text)
    value = _value(text[name.end() :] if name else text)
    return None if value is None else Plain(value, name[1] if name else "")


def _value(text: str) -> Number | Row | None:
    number = _number(text)
    if number is not None:
        return number
    opening, closing = text[:1], text[-1:]
    if opening in _BRACKETS and closing in _BRACKETS.values() and _closes_last(text):
        return _row(opening, closing, _split(text[1:-1]))
    parts = _split(text)
    return _row("", "", parts) if len(parts) > 1 else None


def _row(opening: str, closing: str, parts: Sequence[str]) -> Row | None:
    if len(parts) > _MOST_ITEMS or (opening and len(parts) < 2):
        return None
    # One level of brackets is as deep as answers go; bare lists stand in no brackets.
    items = [_number(part) if opening else _value(part) for part in parts]
    numbers = tuple(item for item in items if item is not None)
    return Row(opening, closing, numbers) if len(numbers) == len(items) else None


def _number(text: str) -> Number | None:
    match = _NUMBER.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    sign = -1 if match["sign"] == "-" else 1
    if match["plain"] is not None:
        power = int(match["e"] or match["braced"] or match["bare"] or 0)
        if abs(power) > _LARGEST_POWER:
            return None
        rounded = "." in match["plain"] or power != 0
        return Number(sign * _decimal(match["plain"]) * Fraction(10) ** power, rounded)
    parts = [match["top"], match["bottom"]] if match["top"] else [part for part in match.groups()[2:10] if part]
    top, bottom = parts
    if _decimal(bottom) == 0:
        return None
    ratio = _decimal(top) / _decimal(bottom)
    if match["whole"] is not None and ratio < 0:
        return None
    return Number(sign * (int(match["whole"] or 0) + ratio), any("." in part.rstrip(".") for part in parts))


def _decimal(text: str) -> Fraction:
    digits = re.sub(r"[{,}]", "", text)
    return Fraction(digits.rstrip(".") or "0")


def _closes_last(text: str) -> bool:
    """Whether the bracket that the text begins with is closed by its last sign."""
    depth = 0
    for index, sign in enumerate(text):
        depth += (sign in "([") - (sign in ")]")
        if depth <= 0:
            return index == len(text) - 1
    return False


def _split(text: str) -> list[str]:
    """At the commas outside brackets and braces."""
    parts, depth, start = [], 0, 0
    for index, sign in enumerate(text):
        if sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif sign in ",;" and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


def _same(gold: Number | Row, answer: Number | Row) -> bool | None:
    if isinstance(gold, Number) and isinstance(answer, Number):
        return _same_number(gold, answer)
    if isinstance(gold, Row) and isinstance(answer, Row):
        return _same_row(gold, answer)
    return None


def _same_number(gold: Number, answer: Number) -> bool | None:
    if gold.value == answer.value:
        return True
    if not (gold.rounded or answer.rounded):
        return False
    apart, size = abs(gold.value - answer.value), max(abs(gold.value), abs(answer.value))
    # Below the sixth decimal nothing is left to compare but the ratio.
    return False if apart > _ROUNDING or apart > _CLEARLY_APART * size else None


def _same_row(gold: Row, answer: Row) -> bool | None:
    if bool(gold.opening) != bool(answer.opening) or len(gold.items) != len(answer.items):
        return None
    if gold.opening:
        if (gold.opening, gold.closing) != (answer.opening, answer.closing):
            return None
        verdicts = [_same(mine, yours) for mine, yours in zip(gold.items, answer.items, strict=True)]
        return False if False in verdicts else None if None in verdicts else True
    # In any order: equal if each item has a partner of its own, different if an item may equal none.
    left = list(answer.items)
    for item in gold.items:
        verdicts = [_same(item, candidate) for candidate in left]
        if True not in verdicts:
            return False if all(_same(item, candidate) is False for candidate in answer.items) else None
        left.pop(verdicts.index(True))
    return True
