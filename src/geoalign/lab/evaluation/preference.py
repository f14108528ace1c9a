"""How well a reward source tells the chosen response of a pair from the rejected one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from geoalign.errors import ConfigError
from geoalign.lab.evaluation.scores import mean_of_known
from geoalign.lab.rewards.base import RewardSource
from geoalign.lab.tasks.base import PreferencePair


@dataclass(frozen=True)
class PairAccuracy:
    """Share of the pairs whose chosen response has the higher score (equal scores count half); None of no pair.

    Attributes:
        accuracy, count: over all pairs that could be scored.
        with_shortcut, with_shortcut_count: those in which the chosen response alone takes the task's shortcut.
        against_shortcut, against_shortcut_count: those in which the rejected one alone does; far below `accuracy`, the
            model has learned the shortcut.
        unscored: pairs with a NaN, left out.
    """

    accuracy: float | None
    count: int
    with_shortcut: float | None
    with_shortcut_count: int
    against_shortcut: float | None
    against_shortcut_count: int
    unscored: int


def pair_accuracy(
    source: RewardSource, pairs: Sequence[PreferencePair], takes_shortcut: Callable[[str], bool]
) -> PairAccuracy:
    """Scores both responses of every pair; a task without a recognisable shortcut has no pair with one."""
    prompts, answers = [list(pair.prompt) for pair in pairs], [""] * len(pairs)
    chosen = source.score([pair.chosen for pair in pairs], answers, prompts=prompts)
    rejected = source.score([pair.rejected for pair in pairs], answers, prompts=prompts)
    everything: list[float] = []
    by_side: dict[int, list[float]] = {-1: [], 0: [], 1: []}
    for pair, high, low in zip(pairs, chosen, rejected, strict=True):
        if math.isnan(high) or math.isnan(low):
            continue
        right = 1.0 if high > low else 0.5 if high == low else 0.0
        everything.append(right)
        by_side[_side(pair, takes_shortcut)].append(right)
    return PairAccuracy(
        mean_of_known(everything),
        len(everything),
        mean_of_known(by_side[1]),
        len(by_side[1]),
        mean_of_known(by_side[-1]),
        len(by_side[-1]),
        len(pairs) - len(everything),
    )


def hold_out_prompts(
    pairs: Sequence[PreferencePair], share: float, *, most: int, seed: int
) -> tuple[list[PreferencePair], list[PreferencePair]]:
    """Splits pairs into those for training and those held out, all pairs of a prompt on the same side.

    Prompts are held out in an order drawn from `seed` until a `share` of the pairs or `most` of them is reached; the
    first of them always is, the last never, so that both sides have pairs.
    """
    by_prompt: dict[tuple[tuple[str, str], ...], list[PreferencePair]] = {}
    for pair in pairs:
        key = tuple((message["role"], message["content"]) for message in pair.prompt)
        by_prompt.setdefault(key, []).append(pair)
    if len(by_prompt) < 2:
        raise ConfigError(f"preference pairs: expected at least two different prompts, got {len(by_prompt)}")
    groups = list(by_prompt.values())
    Random(seed).shuffle(groups)
    wanted = min(share * len(pairs), most)
    held_out: list[PreferencePair] = list(groups[0])
    cut = 1
    while cut < len(groups) - 1 and len(held_out) < wanted:
        held_out += groups[cut]
        cut += 1
    return [pair for group in groups[cut:] for pair in group], held_out


def _side(pair: PreferencePair, takes_shortcut: Callable[[str], bool]) -> int:
    """1: the chosen response alone takes the shortcut, -1: the rejected one alone, 0: both or none."""
    try:
        return int(takes_shortcut(pair.chosen)) - int(takes_shortcut(pair.rejected))
    except ConfigError:  # the task knows no shortcut, for any response
        return 0
