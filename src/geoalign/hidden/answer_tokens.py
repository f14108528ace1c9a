"""The tokens with which final answers begin, out of the tokens of responses."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from geoalign.answers.boxed import answer_start

# What a decoder writes for the first bytes of a character whose last ones are missing.
_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"


def answer_starts(tokenizer: Any, responses: Iterable[Iterable[int]]) -> list[int]:
    """Of each response the token, from 0, that holds the first character of its final answer; -1 where none is found.

    The text is decoded from the tokens themselves, as many of its first ones as it takes to reach the answer
    (`geoalign.answers.boxed.answer_start`): encoding the text anew may divide it into other tokens than a model has
    generated.

    Args:
        tokenizer: the Hugging Face tokenizer of the responses.
        responses: lists of token ids.
    """
    starts = []
    for response in ([int(token) for token in ids] for ids in responses):
        start = answer_start(_decoded(tokenizer, response))
        starts.append(-1 if start is None else _token_at(tokenizer, response, start))
    return starts


def rows_without_answer(starts: Sequence[int]) -> int:
    """How many responses have no final answer, and so fall back to the position `predicting`."""
    return sum(start < 0 for start in starts)


def _token_at(tokenizer: Any, response: list[int], character: int) -> int:
    """The first token with which the decoded text is longer than `character`."""

    def length(tokens: int) -> int:
        return len(_decoded(tokenizer, response[:tokens]).rstrip(_INCOMPLETE))

    found = bisect_right(range(len(response)), character, key=lambda token: length(token + 1))
    return min(found, len(response) - 1)


def _decoded(tokenizer: Any, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
