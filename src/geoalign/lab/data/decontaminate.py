"""Rows that stand twice in training, contradict each other, or stand in an evaluation set too."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

from geoalign.answers.messages import Messages
from geoalign.lab.data.settings import Decontaminate
from geoalign.lab.data.task import Problem

# Everything that is neither letter nor digit, of any script.
_OTHER = re.compile(r"[\W_]+")


def fingerprint(prompt: Messages) -> str:
    """The first 150 letters and digits in lower case, without a system message: the same under another layout."""
    text = "".join(message["content"] for message in prompt if message["role"] != "system")
    return _OTHER.sub("", text.lower())[:150]


def fingerprints(prompts: Iterable[Messages]) -> set[str]:
    """Those of prompts; one without a letter or digit has none, so it overlaps nothing."""
    return {fingerprint(prompt) for prompt in prompts} - {""}


def exact(prompt: Messages) -> Hashable:
    """A key that two prompts share where they are the same in every character."""
    return tuple((message["role"], message["content"]) for message in prompt)


def decontaminate(
    mode: Decontaminate,
    source: str,
    keys: Sequence[Hashable],
    answers: Sequence[str],
    prompts: Sequence[Messages],
    evaluated: Iterable[Problem],
) -> tuple[list[int], list[str]]:
    """The rows to train on, in order, and a line on duplicates: of equal keys, in conflict where their answers differ.

    `drop` drops conflicting rows, of other duplicates all but the first, and rows that an evaluation set has.
    """
    everything = list(range(len(keys)))
    if mode == "off":
        return everything, []
    rows_of: dict[Hashable, list[int]] = {}
    for row, key in enumerate(keys):
        rows_of.setdefault(key, []).append(row)
    several = [rows for rows in rows_of.values() if len(rows) > 1]
    conflicts = [rows for rows in several if len({answers[row] for row in rows}) > 1]
    later = {row for rows in several for row in rows[1:]}
    conflicting = {row for rows in conflicts for row in rows}
    if mode == "report":
        line = (
            f"{source}: {len(several)} prompts stand there more than once ({len(later)} of {len(keys)} rows stand "
            f"before), {len(conflicts)} of them with conflicting answers ({len(conflicting)} rows)"
        )
        return everything, [line] if several else []
    left = [row for row in everything if row not in conflicting and row not in later]
    tested = fingerprints(problem.prompt for problem in evaluated)
    kept = [row for row in left if fingerprint(prompts[row]) not in tested]
    line = (
        f"{source}: {len(keys) - len(kept)} of {len(keys)} rows dropped: {len(later - conflicting)} stand before, "
        f"{len(conflicting)} conflict with another, {len(left) - len(kept)} stand in an evaluation set; "
        f"{len(kept)} left"
    )
    return kept, [line] if len(kept) < len(keys) else []


def overlap_notes(evaluation: Mapping[str, Sequence[Problem]], trained_on: Collection[str]) -> list[str]:
    """A line for each evaluation set some of whose prompts begin like one of training."""
    shared = {
        name: sum(fingerprint(problem.prompt) in trained_on for problem in problems)
        for name, problems in evaluation.items()
    }
    return [
        f"evaluation set {name}: {count} of {len(evaluation[name])} begin like a training prompt"
        for name, count in shared.items()
        if count
    ]
