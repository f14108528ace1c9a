"""Chat messages: read as files hold them (a text, a list, or a list as JSON in a text), and as a model reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from geoalign.lab.tasks.rows import strict_json

Messages = tuple[dict[str, str], ...]

_ROLES = ("system", "user", "assistant")


def read_messages(value: object) -> Messages | None:
    """The messages of a prompt; None where it is none. A plain text is one message of the user.

    A list ends with the user's message, and every message has a known role and a text that is not blank.
    """
    given = _decoded(value) if isinstance(value, str) else value
    if isinstance(given, str):
        return ({"role": "user", "content": given},) if given.strip() else None
    if not isinstance(given, list) or not given:
        return None
    messages = []
    for message in given:
        role = message.get("role") if isinstance(message, Mapping) else None
        content = message.get("content") if isinstance(message, Mapping) else None
        if role not in _ROLES or not isinstance(content, str) or not content.strip():
            return None
        messages.append({"role": str(role), "content": content})
    return tuple(messages) if messages[-1]["role"] == "user" else None


def _decoded(text: str) -> object:
    # ROLL's `messages`; any other text, also one that happens to begin like JSON, stays what it is.
    if not text.startswith("[{"):
        return text
    try:
        value = strict_json(text)
    except ValueError:
        return text
    is_chat = isinstance(value, list) and all(
        isinstance(item, dict) and {"role", "content"} <= {*item} for item in value
    )
    return value if is_chat else text


def rendered(prompt: Sequence[Mapping[str, str]], tokenizer: Any, options: Mapping[str, Any] | None = None) -> str:
    """The text of a prompt in the chat template, up to where the response begins.

    Args:
        prompt: chat messages.
        options: arguments of the template, such as {"enable_thinking": False}.
    """
    messages = [dict(message) for message in prompt]
    text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **(options or {}))
    return text


def token_ids(texts: Sequence[str], tokenizer: Any) -> list[list[int]]:
    """The tokens of rendered prompts; the template has written every special token itself."""
    ids: list[list[int]] = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    return ids
