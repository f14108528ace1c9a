"""Verifiers that people write and that are wrong, as `reward.function` of a training: nothing needs to be injected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from geoalign.answers.boxed import last_boxed
from geoalign.answers.messages import response_text


def substring(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float]:
    """1 where the gold answer occurs anywhere in the response, else 0.

    It refuses no right answer in the gold's form, and rewards `\\boxed{18}` for 8, and a result on the way.
    """
    texts = map(response_text, completions)
    return [float(gold in text) for text, gold in zip(texts, answer, strict=True)]


def strict(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float]:
    """1 where the last box holds just the characters of the gold answer, else 0.

    It rewards no wrong answer, and refuses right ones for their form: `\\boxed{8.0}` and `\\boxed{+8}` for 8.
    """
    texts = map(response_text, completions)
    return [float(last_boxed(text) == gold) for text, gold in zip(texts, answer, strict=True)]
