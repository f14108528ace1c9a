"""What flags may rest on, read off the summary: nothing is named as evidence that was not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geoalign.audit.two_verdicts import ONE_VERDICT

Summary = Mapping[str, Any]

# The metrics of a step by which `denoise` says that hidden states spoke: at least one is above 0.
_STATE_METRICS = ("geoalign/states_used", "geoalign/correction_low")


def steps_by_states(summary: Summary) -> frozenset[int]:
    """The steps in which `denoise` compared hidden states; none where it had none, or these predicted no rewards."""
    if summary["hidden"]["from"] == "none":
        return frozenset()
    found = set()
    for step in summary["steps"]:
        values = [step["metrics"].get(name) for name in _STATE_METRICS]
        if any(value is not None and value > 0 for value in values):
            found.add(step["step"])
    return frozenset(found)


def truths_were_told(summary: Summary) -> bool:
    """Whether labels or a second verifier told the truth of some rewards."""
    appeals = summary["appeals"]
    return bool(summary["labels"]["labelled"]) or (appeals is not None and bool(appeals["rows"]))


def has_one_verdict(summary: Summary) -> bool:
    """Whether all rewards are one verdict, so that none contradicts another."""
    found = summary["verifier"]
    if "reason" in found:
        return bool(found["reason"] == ONE_VERDICT)
    return found["rewarded"] in (0, found["scored"])
