"""A prompt as a model reads it: in its tokenizer's chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def rendered(prompt: Sequence[Mapping[str, str]], tokenizer: Any, options: Mapping[str, Any] | None = None) -> str:
    """The text of a prompt in the chat template, up to where the response begins.

    Args:
        prompt: chat messages.
        options: what the template is told, such as {"enable_thinking": False}.
    """
    messages = [dict(message) for message in prompt]
    text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **(options or {}))
    return text


def token_ids(texts: Sequence[str], tokenizer: Any) -> list[list[int]]:
    """The tokens of rendered prompts; the template has written every special token itself."""
    ids: list[list[int]] = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    return ids
