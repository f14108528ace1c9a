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
    prompts = [list(pair.prompt) for pair in pairs]
    no_answers = [""] * len(pairs)
    chosen = source.score([pair.chosen for pair in pairs], no_answers, prompts=prompts)
    rejected = source.score([pair.rejected for pair in pairs], no_answers, prompts=prompts)
    right: list[float] = []
    with_shortcut: list[float] = []
    against_shortcut: list[float] = []
    for pair, chosen_score, rejected_score in zip(pairs, chosen, rejected, strict=True):
        if math.isnan(chosen_score) or math.isnan(rejected_score):
            continue
        value = 0.5 if chosen_score == rejected_score else float(chosen_score > rejected_score)
        right.append(value)
        if takes_shortcut is None or takes_shortcut(pair.chosen) == takes_shortcut(pair.rejected):
            continue
        if takes_shortcut(pair.chosen):
            with_shortcut.append(value)
        else:
            against_shortcut.append(value)
    return {
        "accuracy": mean_of_known(right),
        "count": len(right),
        "with_shortcut": mean_of_known(with_shortcut),
        "with_shortcut_count": len(with_shortcut),
        "against_shortcut": mean_of_known(against_shortcut),
        "against_shortcut_count": len(against_shortcut),
        "unscored": len(pairs) - len(right),
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
    held_out = list(groups[0])
    groups_held_out = 1
    while groups_held_out < len(groups) - 1 and len(held_out) < wanted:
        held_out += groups[groups_held_out]
        groups_held_out += 1
    training = [pair for group in groups[groups_held_out:] for pair in group]
    return training, held_out
