"""What a curation says of the verifier behind binary rewards, and of gold answers, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from geoalign.lab.store.values import number, whole


@dataclass(frozen=True)
class DoubtfulPrompt:
    """A prompt whose most frequent answer was refused every time; texts are None where they were left out."""

    step: int
    group: int
    index: int
    answer: str | None
    gold: str | None
    count: int
    share: float
    other_rewarded: bool


def verifier_lines(summary: Mapping[str, Any]) -> list[str]:
    """Sentences on the verifier: contradictions between its verdicts, its error rates; empty where it is unknown."""
    verifier = _mapping(summary, "verifier")
    counts = [
        _contradictions(verifier, "answer", "answers"),
        _contradictions(verifier, "response", "responses"),
        _rates(verifier),
    ]
    return [line for line in counts if line]


def refused_line(summary: Mapping[str, Any]) -> str:
    """One sentence on prompts whose agreed answer is always refused; empty where answers are unknown."""
    prompts = _mapping(summary, "prompts")
    count, least, share = (
        whole(prompts.get("refused")),
        whole(prompts.get("least_count")),
        number(prompts.get("least_share")),
    )
    if count is None or least is None or share is None:
        return ""
    return (
        f"On {count:,} prompt{'' if count == 1 else 's'} the rollouts agree on an answer ({least} or more, at least "
        f"{share:.0%} of them) that is refused every time."
    )


def doubtful_prompts(summary: Mapping[str, Any]) -> list[DoubtfulPrompt]:
    """The listed prompts, strongest agreement first; entries that are none are left out."""
    listed = _mapping(summary, "prompts").get("listed")
    doubtful = []
    for item in listed if isinstance(listed, list) else []:
        item = item if isinstance(item, Mapping) else {}
        numbers = [whole(item.get(name)) for name in ("step", "group", "index", "count")]
        step, group, index, count = numbers
        share = number(item.get("share"))
        if step is None or group is None or index is None or count is None or share is None:
            continue
        answer, gold = _text(item, "answer"), _text(item, "gold")
        other = item.get("other_rewarded") is True
        doubtful.append(DoubtfulPrompt(step, group, index, answer, gold, count, share, other))
    return doubtful


def _contradictions(verifier: Mapping[str, Any], label: str, labels: str) -> str:
    repeated = whole(verifier.get(f"groups_with_repeated_{labels}"))
    both = whole(verifier.get(f"groups_with_{labels}_judged_both_ways"))
    if not repeated or both is None:
        return ""
    return f"The same {label} to a prompt got both verdicts on {both:,} of {repeated:,} prompts that have one twice."


def _rates(verifier: Mapping[str, Any]) -> str:
    rates = _mapping(verifier, "rates")
    said = [
        _rate(_mapping(rates, "false_positive_rate"), ".1%"),
        _rate(_mapping(rates, "false_negative_rate"), ".1%"),
        _rate(_mapping(rates, "informedness"), ".2f"),
    ]
    if not all(said):
        return ""
    return (
        f"By a model of noisy verdicts, the verifier rewards {said[0]} of the wrong answers and refuses {said[1]} of "
        f"the right ones; J, which is 1 less both, is {said[2]}. In brackets 95% intervals, bootstrap over groups."
    )


def _rate(rate: Mapping[str, Any], form: str) -> str:
    estimate, low, high = (number(rate.get(name)) for name in ("estimate", "low", "high"))
    if estimate is None or low is None or high is None:
        return ""
    return f"{estimate:{form}} ({low:{form}} to {high:{form}})"


def _mapping(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = values.get(name)
    return value if isinstance(value, Mapping) else {}


def _text(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) else None
