"""Rows that stand twice in training, contradict each other, or stand in an evaluation set too."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

import pandas

from geoalign.answers.messages import Messages
from geoalign.lab.data.settings import Decontaminate
from geoalign.lab.data.task import Problem

# Everything that is neither letter nor digit, of any script.
_OTHER = re.compile(r"[\W_]+")


def prompt_fingerprint(prompt: Messages) -> str:
    """The first 150 letters and digits in lower case, without a system message: the same under another layout."""
    text = "".join(message["content"] for message in prompt if message["role"] != "system")
    return _OTHER.sub("", text.lower())[:150]


def prompt_fingerprints(prompts: Iterable[Messages]) -> set[str]:
    """Those of prompts; one without a letter or digit has none, so it overlaps nothing."""
    return {prompt_fingerprint(prompt) for prompt in prompts} - {""}


def exact_key(prompt: Messages) -> Hashable:
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
    """The rows to train on, in order, and a line on what was found (none where nothing was).

    Rows with equal keys are duplicates; they conflict where their answers differ. `report` keeps every row. `drop`
    drops conflicting rows, of other duplicates all but the first, and rows whose prompt an evaluation set has too.

    Args:
        source: what the rows are called in the line.
        keys: [N] what makes two rows the same.
        answers: [N] what makes the same rows conflict.
        prompts: [N] what is looked for in the evaluation sets.
        evaluated: the problems of all evaluation sets.
    """
    if mode == "off":
        return list(range(len(keys))), []
    rows = pandas.DataFrame({"key": list(keys), "answer": list(answers)}, dtype=object)
    repeated = rows["key"].duplicated(keep="first")
    conflicting = rows.groupby("key", sort=False)["answer"].transform("nunique") > 1
    if mode == "report":
        duplicates = rows["key"][repeated].nunique()
        conflicts = rows["key"][conflicting].nunique()
        line = (
            f"{source}: {duplicates} prompts stand there more than once ({repeated.sum()} of {len(keys)} rows stand "
            f"before), {conflicts} of them with conflicting answers ({conflicting.sum()} rows)"
        )
        return list(range(len(keys))), [line] if duplicates else []
    unique = rows.index[~repeated & ~conflicting].tolist()
    in_evaluation = prompt_fingerprints(problem.prompt for problem in evaluated)
    kept = [row for row in unique if prompt_fingerprint(prompts[row]) not in in_evaluation]
    if len(kept) == len(keys):
        return kept, []
    repeated_only = (repeated & ~conflicting).sum()
    line = (
        f"{source}: {len(keys) - len(kept)} of {len(keys)} rows dropped: {repeated_only} stand before, "
        f"{conflicting.sum()} conflict with another, {len(unique) - len(kept)} stand in an evaluation set; "
        f"{len(kept)} left"
    )
    return kept, [line]


def overlap_notes(evaluation: Mapping[str, Sequence[Problem]], trained_on: Collection[str]) -> list[str]:
    """A line for each evaluation set some of whose prompts begin like one of training.

    Args:
        trained_on: the `prompt_fingerprints` of the training prompts.
    """
    notes = []
    for name, problems in evaluation.items():
        count = sum(prompt_fingerprint(problem.prompt) in trained_on for problem in problems)
        if count:
            notes.append(f"evaluation set {name}: {count} of {len(problems)} begin like a training prompt")
    return notes
