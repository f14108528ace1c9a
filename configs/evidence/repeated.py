"""Injected errors that repeat with the answer, as a real verifier's do: `reward.function` of math_repeated.yaml."""

import hashlib

from geoalign.boxed import last_boxed
from geoalign.lab.rewards.base import response_text


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
