"""Chat messages: read from data, rendered by a chat template, and the text of a completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from geoalign.answers import completion_text

# The name by which reward functions know it.
response_text = completion_text


# A chat: {"role": ..., "content": ...} each.
Messages = tuple[dict[str, str], ...]


def read_messages(value: object) -> Messages | None:
    """The messages of a prompt; None for a value that is no prompt. A plain text is one message of the user.

    A list ends with the user's message, and every message has a known role and a text that is not blank.
    """
    given = [{"role": "user", "content": value}] if isinstance(value, str) else value
    if not isinstance(given, list) or not given:
        return None
    messages = []
    for message in given:
        role, content = (message.get("role"), message.get("content")) if isinstance(message, Mapping) else (None, None)
        if role not in ("system", "user", "assistant") or not isinstance(content, str) or not content.strip():
            return None
        messages.append({"role": str(role), "content": content})
    return tuple(messages) if messages[-1]["role"] == "user" else None


def rendered(prompt: Sequence[Mapping[str, str]], tokenizer: Any, options: Mapping[str, Any] | None = None) -> str:
    """The text of a prompt in the chat template with its `options`, up to where the response begins."""
    messages = [dict(message) for message in prompt]
    text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **(options or {}))
    return text


def token_ids(texts: Sequence[str], tokenizer: Any) -> list[list[int]]:
    """The tokens of rendered prompts; the template has written every special token itself."""
    ids: list[list[int]] = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    return ids
