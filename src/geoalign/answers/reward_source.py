"""What gives rewards: a verifier, a function, a model, behind one interface."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from geoalign.errors import UnscoredError

# Counters of a reward source that say how much it did; all others say why a response was not scored, or not read.
_NO_REASONS = ("scored", "correct", "compared")


class RewardSource(Protocol):
    """Scores responses; `binary` where every reward is 0 or 1. NaN is that of an unscored response."""

    @property
    def binary(self) -> bool: ...

    def score(
        self, responses: Sequence[str], answers: Sequence[str], *, prompts: Sequence[Any] | None = None
    ) -> list[float]:
        """One reward per response, from the gold answer or the prompt (chat messages) of its row."""


def reasons(source: object) -> dict[str, int]:
    """How many responses a reward has not scored or not read since its start, by reason; empty where it counts none."""
    counters: Mapping[str, int] = getattr(source, "counters", {})
    return {name: number for name, number in counters.items() if name not in _NO_REASONS}


def reasons_since(source: object, before: Mapping[str, int]) -> dict[str, int]:
    """How much `reasons` has grown since it gave `before`."""
    return {name: number - before.get(name, 0) for name, number in reasons(source).items()}


def check_scored(rewards: Sequence[float], most: float, *, why: Mapping[str, int], what: str) -> None:
    """Raises UnscoredError if more than the share `most` of a batch's rewards (all processes') is NaN.

    `why`: how many of the batch, by reason; `what`: the batch in words.
    """
    unscored = sum(map(math.isnan, rewards))
    if unscored <= most * len(rewards):
        return
    counted = ", ".join(f"{name} {number}" for name, number in why.items() if number) or "no reason counted"
    raise UnscoredError(
        f"reward: expected scores for all but {most:.0%} of {what} (reward.max_unscored), got none for {unscored} of "
        f"{len(rewards)} responses: {counted}. Once the cause is gone, go on with --resume"
    )
