"""What generates responses: one protocol, kept by transformers' generate, by vLLM, and by the vLLM of a trainer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Generated:
    """One response: its text without special tokens, its length with its end, and whether it reached the limit."""

    text: str
    tokens: int
    truncated: bool


class Engine(Protocol):
    """A model that answers prompts."""

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], *, temperature: float, max_new_tokens: int
    ) -> list[Generated]:
        """One response to each prompt of tokens, drawn from the whole vocabulary.

        Args:
            seeds: of each response's own stream of draws (`seed_of`).
            temperature: 0: the likeliest token each time.
            max_new_tokens: longest response.
        """


def generated(tokens: Sequence[int], ends: frozenset[int], tokenizer: Any) -> Generated:
    """The response that new tokens hold: up to the first one that ends it; what follows is padding."""
    length, ended = response_length(tokens, ends)
    return Generated(tokenizer.decode(tokens[:length], skip_special_tokens=True), length, not ended)


def response_length(tokens: Sequence[int], ends: frozenset[int]) -> tuple[int, bool]:
    """Tokens up to and with the first end token, and whether there is one."""
    for number, token in enumerate(tokens, start=1):
        if token in ends:
            return number, True
    return len(tokens), False


def end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end a response: the tokenizer's, and those that the model's generation settings name besides."""
    settings = getattr(model, "generation_config", None)
    named = getattr(settings, "eos_token_id", None)
    ids = named if isinstance(named, list | tuple) else [named]
    return frozenset(int(token) for token in (*ids, tokenizer.eos_token_id) if token is not None)
