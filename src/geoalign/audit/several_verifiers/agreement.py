"""How much each verifier accepts, and where two of them contradict each other."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas
from jaxtyping import Bool

from geoalign.audit.several_verifiers.judged_rows import REWARD, JudgedRows

# Rows that are listed of a pair, each of another prompt, for either direction.
_LISTED = 5


def counts_of_verifier(judged: JudgedRows, name: str) -> dict[str, Any]:
    """On how many rows a verifier gave a verdict, what share it accepts, and how often it agrees with the reward."""
    if name not in judged.accepted:
        return {"judged": 0, "accepted": None, "agrees_with_reward": None}
    verdicts = judged.accepted[name]
    return {
        "judged": int(verdicts.notna().sum()),
        "accepted": float(verdicts.mean()),
        "agrees_with_reward": _agreement_with_reward(judged, name),
    }


def _agreement_with_reward(judged: JudgedRows, name: str) -> float | None:
    """The share of equal verdicts among the rows that both judged; None where there are none."""
    if name == REWARD or REWARD not in judged.accepted:
        return None
    verdicts = judged.accepted[name]
    rewards = judged.accepted[REWARD]
    both = verdicts.notna() & rewards.notna()
    return float((verdicts == rewards)[both].mean()) if both.any() else None


def pair_summaries(judged: JudgedRows) -> list[dict[str, Any]]:
    """For each two verifiers on how many rows they agree, and rows on which one accepts what the other refuses.

    Of every contradiction exactly one of the two is wrong. The pairs that contradict each other most come first.
    """
    found = [_pair_summary(judged, first, second) for first, second in combinations(judged.names, 2)]
    return sorted(found, key=lambda pair: -(pair["first_alone_accepts"] + pair["second_alone_accepts"]))


def _pair_summary(judged: JudgedRows, first: str, second: str) -> dict[str, Any]:
    one = judged.accepted[first]
    other = judged.accepted[second]
    both = int((one.notna() & other.notna()).sum())
    first_alone = ((one == 1) & (other == 0)).to_numpy()
    second_alone = ((one == 0) & (other == 1)).to_numpy()
    contradictions = int(first_alone.sum() + second_alone.sum())
    return {
        "first": first,
        "second": second,
        "both_judged": both,
        "agreement": 1 - contradictions / both if both else None,
        "first_alone_accepts": int(first_alone.sum()),
        "second_alone_accepts": int(second_alone.sum()),
        "first_alone_rows": _one_of_each_prompt(judged, first_alone),
        "second_alone_rows": _one_of_each_prompt(judged, second_alone),
    }


def _one_of_each_prompt(judged: JudgedRows, chosen: Bool[np.ndarray, " n"]) -> list[int]:
    """The indices of the first chosen rows, each of another prompt."""
    places = np.flatnonzero(chosen)
    first_of_prompt = ~pandas.Series(judged.group[places]).duplicated().to_numpy()
    return [int(index) for index in judged.accepted.index[places[first_of_prompt][:_LISTED]]]
