"""What a process of `AnswerWorkers` runs: math-verify on one pair of answers after another.

math-verify compares numbers by absolute tolerances, by which all tiny numbers are equal. Here two numbers that it calls
equal must agree by their ratio, too.
"""

from __future__ import annotations

import logging
import resource
import signal
from collections.abc import Callable
from functools import lru_cache
from multiprocessing.connection import Connection
from typing import Any

from math_verify import ExprExtractionConfig, LatexExtractionConfig, grader, parse, verify
from sympy import Basic, Float, Integer

from geoalign.answers.equality import without_name

# Seconds after its time limit at which the system ends a process, should no parent be left to do so.
_GUARD_SECONDS = 10.0
# An answer such as 9^{9^{9^9}} asks for more memory than there is; then a MemoryError is better than a dead machine.
_MEMORY_BYTES = 4 * 2**30
_TARGETS = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())

# Two numbers that math-verify calls equal by its absolute tolerances (six decimals where one is a decimal, 1e-15
# otherwise) are so only if they differ by no more than this share of the larger one. 0.001389 is 1/720, 0.000333 is not
# 1/3000: four digits must agree.
_DECIMAL_SHARE = 2e-4
_EXACT_SHARE = 1e-9
_DIGITS = 30


def main(descriptor: int, timeout: float) -> None:
    """Answers pairs until its connection ends; says "ready" first, or why it cannot work."""
    connection = Connection(descriptor)
    # An interrupt at the keyboard is the parent's affair, which ends this process by ending its connection.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(_MEMORY_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    grader.sympy_numeric_eq = _also_by_ratio(grader.sympy_numeric_eq)
    # math-verify warns that its own time limit is off. That is intended: its limit cannot interrupt one long C call.
    logging.disable(logging.WARNING)
    try:
        # The first comparison loads grammars and much of sympy; no answer's time limit should pay for that.
        _are_equal("\\sqrt{x+4}", "\\frac{x}{2}+1.5")
    except Exception as error:
        connection.send(f"{type(error).__name__}: {error}"[:500])
        return
    connection.send("ready")
    while True:
        try:
            gold, answer = connection.recv()
        except EOFError:
            return
        # The system ends this process after so many seconds, even with no parent left to kill it.
        signal.setitimer(signal.ITIMER_REAL, timeout + _GUARD_SECONDS)
        try:
            equal = _are_equal(gold, answer) or _are_equal(*without_name(gold, answer))
            outcome = "correct" if equal else "wrong"
        except Exception:  # whatever a parser makes of hostile text, no memory included; counted by the caller
            outcome = "errors"
        signal.setitimer(signal.ITIMER_REAL, 0)
        connection.send(outcome)


def _are_equal(gold: str, answer: str) -> bool:
    """Whether math-verify calls one reading of the answer equal to one of the gold answer."""
    expected = _parsed_gold(gold)
    given = _parsed(answer)
    try:
        return bool(verify(expected, given, timeout_seconds=None, raise_on_error=True))
    except Exception:
        # One of several readings could not be compared; if another one is equal, that counts.
        if verify(expected, given, timeout_seconds=None):
            return True
        raise


def _parsed(text: str) -> Any:
    return parse(f"\\boxed{{{text}}}", _TARGETS, parsing_timeout=None, raise_on_error=True)


# Parsing is most of the work, and a gold answer comes once for every different response to its prompt.
_parsed_gold = lru_cache(maxsize=1024)(_parsed)


def _also_by_ratio(numeric_equality: Callable[..., bool]) -> Callable[..., bool]:
    """math-verify's comparison of numbers, which it makes of every number in tuples, sets and matrices too, but false
    where the two have different magnitudes."""

    def equal(one: Any, other: Any, *args: Any, **kwargs: Any) -> bool:
        if not numeric_equality(one, other, *args, **kwargs):
            return False
        if not (isinstance(one, Basic) and isinstance(other, Basic)):
            return True  # matrices, whose elements come here one by one
        if one == other or all(grader.is_atomic_or_pct_atomic(side, Integer) for side in (one, other)):
            return True
        decimal = one.has(Float) or other.has(Float)
        return _agree(one.doit(), other.doit(), _DECIMAL_SHARE if decimal else _EXACT_SHARE)

    return equal


def _agree(one: Any, other: Any, share: float) -> bool:
    """Whether two numbers differ by at most a share of the larger one; True, as math-verify has it, for no numbers."""
    sizes = [abs(side.evalf(_DIGITS)) for side in (one, other)]
    difference = abs((one - other).evalf(_DIGITS))
    if not all(size.is_comparable for size in (*sizes, difference)):
        return True
    return bool(difference <= share * max(sizes))
