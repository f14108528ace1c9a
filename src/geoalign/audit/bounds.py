"""The bounds that `--fail-above` sets on the verifier's error rates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from geoalign.errors import ConfigError
from geoalign.text import quote

RATES = ("false_positive", "false_negative")


def parse_bounds(texts: Sequence[str]) -> dict[str, float]:
    """`RATE=BOUND` of `--fail-above`, by rate; ConfigError for another rate, no number between 0 and 1, one twice."""
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


def bounds_kept(summary: Mapping[str, Any], bounds: Mapping[str, float]) -> tuple[int, list[str]]:
    """The exit code, and a sentence for each bound exceeded or not to be checked: 3 where a whole interval lies above
    its bound, else 4 where a rate cannot be told, lest a job pass that checked nothing, else 0."""
    verifier = summary["verifier"]
    rates = verifier.get("rates") or {}
    why = verifier.get("reason") or f"Nothing bounds it, and {verifier.get('doubt') or 'no model tells it'}."
    code, said = 0, []
    for name, bound in bounds.items():
        ends = [rates.get(f"{name}_rate", {}).get(end) for end in ("low", "high")]
        low, high = (math.nan if end is None else end for end in ends)
        if low > bound:
            code = 3
            said.append(f"{name}: at least {low:.1%}, above {bound:.1%}")
        elif not high - low < 1:  # NaN, or from 0 to 1
            code = code or 4
            said.append(f"{name}: whether it is above {bound:.1%} cannot be told. {why}")
    return code, said
