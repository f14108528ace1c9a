"""Injected errors that repeat with the answer, as a real verifier's do, and a rule: math_repeated.yaml's rewards."""

import hashlib
from collections import Counter

from geoalign.answers.boxed import last_boxed
from geoalign.answers.messages import response_text


def _flipped(prompts, completions, answer, share):
    for prompt, completion, gold in zip(prompts, completions, answer, strict=True):
        given = last_boxed(response_text(completion))
        drawn = hashlib.sha256(f"{prompt}\n{given}".encode()).digest()
        yield float((given == gold) != (int.from_bytes(drawn[:8], "big") < share * 2**64))


def flipped_20(prompts, completions, answer, **_):
    """The verdict on every fifth answer to a prompt is wrong, each time that it is given."""
    return list(_flipped(prompts, completions, answer, 0.2))


def flipped_40(prompts, completions, answer, **_):
    """The verdict on two answers in five to a prompt is wrong, each time that it is given."""
    return list(_flipped(prompts, completions, answer, 0.4))


def checked_majority(prompts, completions, answer, **_):
    """The truth of the most frequent answer to a prompt, the first of several; every other answer counts as wrong."""
    given = [last_boxed(response_text(completion)) for completion in completions]
    counts = Counter((prompt, each) for prompt, each in zip(map(str, prompts), given, strict=True) if each is not None)
    most = {}
    for (prompt, each), _count in counts.most_common():
        most.setdefault(prompt, each)
    rows = zip(map(str, prompts), given, answer, strict=True)
    return [float(most.get(prompt) == each == gold) for prompt, each, gold in rows]
