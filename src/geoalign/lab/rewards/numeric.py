"""Different values prove that two expressions differ: done in a moment, where showing it by algebra takes its time.

For the process that compares answers: it imports sympy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sympy import Add, Expr, Mul, NumberSymbol, Pow, Rational, Symbol, preorder_traversal
from sympy.core.numbers import ImaginaryUnit

_DIGITS = 30
_APART = Rational(1, 10**10)
# Whatever is made of these alone has a value wherever its symbols have one.
_PLAIN = (Add, Mul, Pow, Rational, NumberSymbol, ImaginaryUnit, Symbol)
# Values of the symbols, in the order of their names; nothing is special about them.
_VALUES = [Rational(top, 97) for top in (131, 173, 211, 257, 293, 337, 379, 419)]


def surely_different(expected: Sequence[Any], given: Sequence[Any]) -> bool:
    """Whether no reading of one answer can equal a reading of the other, because their values differ.

    Only for sums, products and powers of whole numbers, fractions, constants and the same symbols: decimals, percents,
    sets, equations and texts follow rules of their own, which are math-verify's. False where that is not so.
    """
    golds, answers = ([item for item in readings if not isinstance(item, str)] for readings in (expected, given))
    if not golds or not answers or not all(map(_is_plain, [*golds, *answers])):
        return False
    return all(_differ(gold, answer) for gold in golds for answer in answers)


def _is_plain(expression: Any) -> bool:
    if not isinstance(expression, Expr) or isinstance(expression, Symbol):
        return False
    # A percent sign is an UnevaluatedExpr, and so not plain.
    return all(isinstance(node, _PLAIN) for node in preorder_traversal(expression))


def _differ(gold: Any, answer: Any) -> bool:
    symbols = sorted(gold.free_symbols, key=str)
    if gold.free_symbols != answer.free_symbols or len(symbols) > len(_VALUES):
        return False
    point = dict(zip(symbols, _VALUES, strict=False))
    mine, yours = (expression.subs(point).evalf(_DIGITS) for expression in (gold, answer))
    if not (mine.is_number and yours.is_number and mine.is_finite and yours.is_finite):
        return False
    return bool(abs(mine - yours) > _APART * (1 + abs(mine) + abs(yours)))
