"""Bounds on a verifier's error rates, for a job that is to fail where they are exceeded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from geoalign.errors import ConfigError
from geoalign.shown import shown

RATES = ("false_positive", "false_negative")


def parse_bounds(texts: Sequence[str]) -> dict[str, float]:
    """`RATE=BOUND` of `--fail-above`, by rate.

    Raises:
        ConfigError: another rate, no number between 0 and 1, or a rate twice.
    """
    bounds: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            bound = float(number)
        except ValueError:
            bound = -1.0
        if name not in RATES or not 0 <= bound < 1 or name in bounds:
            raise ConfigError(f"--fail-above: expected {' or '.join(RATES)} once, =0 to 1; got {shown(text)}")
        bounds[name] = bound
    return bounds


def exceeded(summary: Mapping[str, Any], bounds: Mapping[str, float]) -> list[str]:
    """A sentence for each rate whose whole interval lies above its bound; a rate that cannot be told is not above."""
    rates = summary["verifier"].get("rates") or {}
    found = []
    for name, bound in bounds.items():
        low = rates.get(f"{name}_rate", {}).get("low")
        if low is not None and low > bound:
            found.append(f"{name}: at least {low:.1%}, above {bound:.1%}")
    return found
