"""The verifiers from the best to the worst, those that cannot be told apart on one place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool

from geoalign.audit.several_verifiers.model import Model
from geoalign.checks.rates import CheckedRate, CheckedRates


def ranking_summary(by_checks: Mapping[str, CheckedRates], model: Model) -> dict[str, Any]:
    """`ranking` of the summary: by checks where there are some, else the model's; verifiers of one place are tied."""
    if len(by_checks) > 1:
        names, tied = ranked_by_checks(by_checks)
        return {"by": "checks", "reason": None, "places": places_of(names, tied)}
    if model.names:
        return {"by": "model", "reason": None, "places": places_of(model.names, model.tied)}
    return {"by": None, "reason": model.entry["reason"], "places": []}


def ranked_by_checks(rates: Mapping[str, CheckedRates]) -> tuple[list[str], Bool[np.ndarray, "k k"]]:
    """The verifiers by balanced accuracy, the best first, and whether the intervals of two of them overlap."""
    low = {}
    high = {}
    middle = {}
    for name, both in rates.items():
        errors = (both.false_positive_rate, both.false_negative_rate)
        low[name] = 1 - sum(rate.high for rate in errors) / 2
        high[name] = 1 - sum(rate.low for rate in errors) / 2
        middle[name] = 1 - sum(_estimate(rate) for rate in errors) / 2
    names = sorted(rates, key=lambda name: -middle[name])
    overlap = [[low[one] <= high[other] and low[other] <= high[one] for other in names] for one in names]
    return names, np.array(overlap)


def _estimate(rate: CheckedRate) -> float:
    """The estimate, or the middle of the interval where no row of the class was checked."""
    return (rate.low + rate.high) / 2 if math.isnan(rate.estimate) else rate.estimate


def places_of(names: Sequence[str], tied: Bool[np.ndarray, "k k"]) -> list[list[str]]:
    """The names by place: a verifier shares the place of the one that opened it, unless it can be told from it."""
    places: list[list[str]] = []
    opened_by = 0
    for number, name in enumerate(names):
        if places and tied[opened_by, number]:
            places[-1].append(name)
        else:
            places.append([name])
            opened_by = number
    return places
