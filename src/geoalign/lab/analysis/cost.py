"""What a curator costs: one definition behind the report of a run and the comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CURATION_SECONDS = ("geoalign/seconds", "geoalign/hidden_seconds")


def curation_seconds(logged: Mapping[str, Any]) -> float | None:
    """What the curator added to a step: its own seconds and those of its pass for hidden states; None where neither was
    logged."""
    known = [value for name in CURATION_SECONDS if (value := logged.get(name)) is not None]
    return sum(known, 0.0) if known else None
