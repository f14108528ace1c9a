"""How much of a batch may stay unscored before a run stops rather than learns from what is left."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from geoalign.errors import UnscoredError
from geoalign.lab.rewards.base import RewardSource

# Counters of a reward source that say how much it did; all others say why a response was not scored, or not read.
_NO_REASONS = ("scored", "correct", "compared")


def reasons(source: RewardSource) -> dict[str, int]:
    """How many responses a source has not scored or not read since its start, by reason; empty where it counts none."""
    counters: Mapping[str, int] = getattr(source, "counters", {})
    return {name: number for name, number in counters.items() if name not in _NO_REASONS}


def reasons_since(source: RewardSource, before: Mapping[str, int]) -> dict[str, int]:
    """What has come to `reasons` since it gave `before`."""
    return {name: number - before.get(name, 0) for name, number in reasons(source).items()}


def check_scored(rewards: Sequence[float], most: float, *, why: Mapping[str, int], what: str) -> None:
    """Raises UnscoredError if more than the share `most` of the rewards is NaN; of none at all, nothing is unscored.

    Args:
        rewards: those of one batch, all processes'.
        most: `reward.max_unscored`.
        why: how many of the batch, by reason; those of none are left out of the message.
        what: the batch in words, such as "a generation batch".
    """
    unscored = sum(map(math.isnan, rewards))
    if unscored <= most * len(rewards):
        return
    counted = ", ".join(f"{name} {number}" for name, number in why.items() if number) or "no reason counted"
    raise UnscoredError(
        f"reward: expected scores for all but {most:.0%} of {what} (reward.max_unscored), got none for {unscored} of "
        f"{len(rewards)} responses: {counted}. Nothing is lost: once the cause is gone, go on with --resume"
    )
