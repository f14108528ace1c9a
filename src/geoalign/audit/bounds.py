"""The bounds that `--fail-above` sets on the verifier's error rates: a job fails where they are exceeded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geoalign.audit.words.verifier import says_nothing
from geoalign.errors import ConfigError
from geoalign.text import quote

RATES = ("false_positive", "false_negative")
EXCEEDED = 3
UNKNOWN = 4


@dataclass(frozen=True)
class BoundsOutcome:
    """The exit code of the command, and a sentence for each bound that is exceeded or cannot be checked.

    Attributes:
        exit_code: 3 where the whole interval of a rate lies above its bound, else 4 where the audit prints a rate as
            not known, lest a job pass that checked nothing, else 0.
    """

    exit_code: int
    sentences: list[str]


def parse_bounds(texts: Sequence[str]) -> dict[str, float]:
    """`RATE=BOUND` of `--fail-above`, by rate; ConfigError for another rate, no number from 0 to below 1, one twice."""
    bounds: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            bound = float(number)
        except ValueError:
            bound = -1.0
        if name not in RATES or not 0 <= bound < 1 or name in bounds:
            raise ConfigError(f"--fail-above: expected {' or '.join(RATES)} once, in [0, 1); got {quote(text)}")
        bounds[name] = bound
    return bounds


def check_bounds(summary: Mapping[str, Any], bounds: Mapping[str, float]) -> BoundsOutcome:
    """Compares the intervals of the verifier's error rates with their bounds."""
    exceeded = []
    unknown = []
    sentences = []
    for name, bound in bounds.items():
        low, high = _interval(summary["verifier"], name)
        if low > bound:
            exceeded.append(name)
            sentences.append(f"{name}: at least {low:.1%}, above {bound:.1%}")
        elif high > bound and says_nothing(low, high):
            unknown.append(name)
            why = _why_unknown(summary["verifier"])
            sentences.append(f"{name}: whether it is above {bound:.1%} cannot be told. {why}")
    exit_code = EXCEEDED if exceeded else UNKNOWN if unknown else 0
    return BoundsOutcome(exit_code, sentences)


def _interval(verifier: Mapping[str, Any], name: str) -> tuple[float, float]:
    """Where a rate lies; from 0 to 1 where nothing is known of it."""
    rates = verifier.get("rates")
    if rates is None:
        return 0.0, 1.0
    low = rates[f"{name}_rate"]["low"]
    high = rates[f"{name}_rate"]["high"]
    return (0.0, 1.0) if low is None or high is None else (low, high)


def _why_unknown(verifier: Mapping[str, Any]) -> str:
    if "reason" in verifier:
        return str(verifier["reason"])
    return f"Nothing bounds it, and {verifier['doubt'] or 'no model tells it'}."
