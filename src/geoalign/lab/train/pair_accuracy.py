"""How well a reward model tells the chosen response of a pair from the rejected one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random

from geoalign.answers.reward_source import RewardSource
from geoalign.errors import ConfigError
from geoalign.lab.data.task import PreferencePair
from geoalign.lab.models.accuracy import mean_of_known


def pair_accuracy(
    source: RewardSource, pairs: Sequence[PreferencePair], takes_shortcut: Callable[[str], bool] | None
) -> dict[str, float | int | None]:
    """Share of the pairs whose chosen response has the higher score (equal scores count half); None of no pair.

    `with_shortcut`: of those whose chosen response alone takes the task's shortcut; `against_shortcut`: whose rejected
    one alone does; far below `accuracy`, the model has learned the shortcut.
    """
    prompts, answers = [list(pair.prompt) for pair in pairs], [""] * len(pairs)
    chosen = source.score([pair.chosen for pair in pairs], answers, prompts=prompts)
    rejected = source.score([pair.rejected for pair in pairs], answers, prompts=prompts)
    by_side: dict[int, list[float]] = {-1: [], 0: [], 1: []}
    for pair, high, low in zip(pairs, chosen, rejected, strict=True):
        if not math.isnan(high) and not math.isnan(low):
            # 1: the chosen response alone takes the shortcut, -1: the rejected one alone.
            side = 0 if takes_shortcut is None else takes_shortcut(pair.chosen) - takes_shortcut(pair.rejected)
            by_side[side].append(1.0 if high > low else 0.5 if high == low else 0.0)
    everything = [right for side in by_side.values() for right in side]
    return {
        "accuracy": mean_of_known(everything),
        "count": len(everything),
        "with_shortcut": mean_of_known(by_side[1]),
        "with_shortcut_count": len(by_side[1]),
        "against_shortcut": mean_of_known(by_side[-1]),
        "against_shortcut_count": len(by_side[-1]),
        "unscored": len(pairs) - len(everything),
    }


def hold_out_prompts(
    pairs: Sequence[PreferencePair], share: float, *, most: int, seed: int
) -> tuple[list[PreferencePair], list[PreferencePair]]:
    """Splits pairs into those for training and those held out, all pairs of a prompt on the same side.

    Prompts are held out, in an order of `seed`, until a `share` of the pairs or `most` is reached; both sides get one.
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
