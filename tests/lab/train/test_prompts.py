"""Prompts that are too long are left out and counted."""

from __future__ import annotations

import pytest

from geoalign.errors import ConfigError
from geoalign.lab.models.models import make_tokenizer
from geoalign.lab.tasks.base import Demonstration, Problem
from geoalign.lab.tasks.chat import rendered, token_ids
from geoalign.lab.train.prompts import prompt_lengths, short_enough

TOKENIZER = make_tokenizer("abc", max_length=64)


def problems(*texts: str) -> list[Problem]:
    return [Problem(text, ({"role": "user", "content": text},), "") for text in texts]


def test_lengths_are_those_of_the_chat_template() -> None:
    short, long = problems("a", "abcabc")
    assert prompt_lengths([], TOKENIZER, {}) == []
    first, second = prompt_lengths([short, long], TOKENIZER, {})
    assert second == first + 5
    assert first == len(token_ids([rendered(short.prompt, TOKENIZER)], TOKENIZER)[0])


def test_the_limit_itself_is_short_enough_and_the_order_stays() -> None:
    items = problems("abc", "abcabc", "a", "abcab")
    edge = prompt_lengths(items[:1], TOKENIZER, {})[0]
    kept, note = short_enough(items, edge, TOKENIZER, {}, what="training prompts")
    assert [item.id for item in kept] == ["abc", "a"]
    assert note == f"2 of 4 training prompts left out: more than max_prompt_length = {edge} tokens"
    demonstrations = [Demonstration(item.prompt, "b" * 50) for item in items]
    assert len(short_enough(demonstrations, edge, TOKENIZER, {}, what="demonstrations")[0]) == 2


def test_a_limit_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_prompt_length: expected a limit that some of the 2 prompts keep, got 2"):
        short_enough(problems("abc", "abcab"), 2, TOKENIZER, {}, what="prompts")
